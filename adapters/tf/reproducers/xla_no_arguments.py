"""Compiled by XLA, a recomputed function without arguments is not recomputed."""

import tensorflow as tf


def products(block):
    """The products in the compiled program of a step."""

    @tf.function(autograph=False, jit_compile=True)
    def step(x, cotangent):
        with tf.GradientTape() as tape:
            y = block(x)()
        return y, tape.gradient(y, w, output_gradients=cotangent)

    return step.experimental_get_compiler_ir(x, x)(stage="optimized_hlo").count(" dot(")


w, x = tf.Variable(tf.ones([4, 4])), tf.ones([4, 4])


def block(x):
    return lambda: tf.sin(x @ w)


assert products(lambda x: tf.recompute_grad(block(x))) == products(block)
