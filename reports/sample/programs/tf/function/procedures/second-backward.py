"""Gradients taken twice over one retained graph.

Case procedures/second-backward, variant tf/function.
Source: torch's checkpoint tests, retain_graph; a crash of Paddle's PyLayer recompute
"""

import numpy as np
import tensorflow as tf


def inputs():
    rng = np.random.default_rng(0)
    x = tf.constant(0.5 * rng.standard_normal((3, 4)), dtype=tf.float32)
    w = tf.Variable(0.5 * rng.standard_normal((4, 4)), dtype=tf.float32)
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

    # Cotangents are data: the graph optimizer cannot see through a product with them.
    @tf.function(autograph=False)
    def step(values, cotangent, cotangent2):
        sources = {"x": values["x"], "w": values["w"]}
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(values["x"])
            outputs = forward(**values)
            loss = tf.reduce_sum(outputs)
        gradients = tape.gradient(loss, sources, output_gradients=cotangent)
        again = tape.gradient(loss, sources, output_gradients=cotangent2)
        return outputs, loss, gradients, again

    outputs, loss, gradients, again = step(values, tf.constant(1.0), tf.constant(1.0))
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
