"""Compiled by XLA, nothing is recomputed if the loss does not use the first output."""

import tensorflow as tf


def products(block):
    """The products in the compiled program of a step whose loss uses the second output."""
    w, x = tf.Variable(tf.ones([4, 4])), tf.ones([4, 4])

    @tf.function(autograph=False, jit_compile=True)
    def step(x, cotangent):
        with tf.GradientTape() as tape:
            y = block(x, w)[1]
        return y, tape.gradient(y, w, output_gradients=cotangent)

    return step.experimental_get_compiler_ir(x, x)(stage="optimized_hlo").count(" dot(")


def block(x, w):
    h = tf.sin(x @ w)
    return tf.cos(h), tf.exp(h)


assert products(block) == products(tf.recompute_grad(block))
