"""Compiled by XLA, a recomputed function without arguments is not recomputed."""

import tensorflow as tf


def products(w, x, block, arguments):
    """The products in the compiled program of a step."""

    @tf.function(autograph=False, jit_compile=True)
    def step(x, cotangent):
        with tf.GradientTape() as tape:
            y = block(x)(*arguments(x))
        return y, tape.gradient(y, w, output_gradients=cotangent)

    return step.experimental_get_compiler_ir(x, x)(stage="optimized_hlo").count(" dot(")


w, x = tf.Variable(tf.ones([4, 4])), tf.ones([4, 4])


def block(x):
    return lambda: tf.sin(x @ w)


def arguments(x):
    return ()


recomputed = products(w, x, lambda x: tf.recompute_grad(block(x)), arguments)
assert recomputed == products(w, x, block, arguments)
