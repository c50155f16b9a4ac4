"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant tf/xla.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import numpy as np
import tensorflow as tf


def inputs():
    rng = np.random.default_rng(0)
    x = tf.constant(0.5 * rng.standard_normal((3, 4)), dtype=tf.float32)
    w1 = tf.Variable(0.5 * rng.standard_normal((4, 4)), dtype=tf.float32)
    w2 = tf.Variable(0.5 * rng.standard_normal((4, 2)), dtype=tf.float32)
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        h = x @ w1
        s = tf.sin(h)
        return tf.exp(s)

    a = block(x)
    y = a @ w2
    return y * y


def recomputed(x, w1, w2):
    def block(x):
        h = x @ w1
        s = tf.sin(h)
        return tf.exp(s)

    recomputed_block = tf.recompute_grad(block)
    a = recomputed_block(x)
    y = a @ w2
    return y * y


def run(forward):
    values = inputs()

    # A constant cotangent would let the optimizer make one of forward and rerun.
    @tf.function(autograph=False, jit_compile=True)
    def step(values, cotangent):
        sources = {"w1": values["w1"], "w2": values["w2"]}
        with tf.GradientTape() as tape:
            outputs = forward(**values)
            loss = tf.reduce_sum(outputs)
        gradients = tape.gradient(loss, sources, output_gradients=cotangent)
        return outputs, loss, gradients

    outputs, loss, gradients = step(values, tf.constant(1.0))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
