"""A region that returns a tuple inside a tuple.

Case structure/nested-tuple-output, variant tf/function.
Source: pytorch issue 124725; Paddle's recompute with nested outputs
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
        a = tf.sin(h)
        b = tf.tanh(h)
        c = tf.exp(a)
        return a, (b, c)

    a, (b, c) = block(x)
    ab = a * b
    z = ab * c
    return z, (b, c)


def recomputed(x, w):
    def block(x):
        h = x @ w
        a = tf.sin(h)
        b = tf.tanh(h)
        c = tf.exp(a)
        return a, (b, c)

    recomputed_block = tf.recompute_grad(block)
    a, (b, c) = recomputed_block(x)
    ab = a * b
    z = ab * c
    return z, (b, c)


def run(forward):
    values = inputs()

    # A constant cotangent would let the optimizer make one of forward and rerun.
    @tf.function(autograph=False)
    def step(values, cotangent):
        sources = {"x": values["x"], "w": values["w"]}
        with tf.GradientTape() as tape:
            tape.watch(values["x"])
            outputs = forward(**values)
            loss = tf.reduce_sum(outputs[0])
        gradients = tape.gradient(loss, sources, output_gradients=cotangent)
        return outputs, loss, gradients

    outputs, loss, gradients = step(values, tf.constant(1.0))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
