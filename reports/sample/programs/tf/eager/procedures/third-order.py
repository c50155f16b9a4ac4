"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant tf/eager.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
"""

import numpy as np
import tensorflow as tf


def inputs():
    rng = np.random.default_rng(0)
    x = tf.constant(0.5 * rng.standard_normal((3, 4)), dtype=tf.float32)
    w = tf.Variable(
        0.5 * rng.standard_normal((4, 4)), dtype=tf.float32, trainable=False
    )
    return {"x": x, "w": w}


def plain(x, w):
    def block(x):
        h = x @ w
        s = tf.sin(h)
        a = tf.exp(s)
        return a

    a = block(x)
    z = a * a
    return z


def recomputed(x, w):
    def block(x):
        h = x @ w
        s = tf.sin(h)
        a = tf.exp(s)
        return a

    recomputed_block = tf.recompute_grad(block)
    a = recomputed_block(x)
    z = a * a
    return z


def run(forward):
    values = inputs()
    sources = {"x": values["x"]}
    with tf.GradientTape() as outermost:
        outermost.watch(values["x"])
        with tf.GradientTape() as outer:
            outer.watch(values["x"])
            with tf.GradientTape() as tape:
                tape.watch(values["x"])
                outputs = forward(**values)
                loss = tf.reduce_sum(outputs)
            gradients = tape.gradient(loss, sources)
            total = tf.add_n([tf.reduce_sum(g) for g in gradients.values()])
        again = outer.gradient(total, sources)
        total = tf.add_n([tf.reduce_sum(g) for g in again.values()])
    again = outermost.gradient(total, sources)
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": gradients,
        "again": again,
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
