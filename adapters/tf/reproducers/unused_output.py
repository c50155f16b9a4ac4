"""Operations that only the gradient of an unused output needs are recomputed."""

import tensorflow as tf


@tf.recompute_grad
def block(x):
    h = tf.sin(x)
    return h, tf.exp(h)


@tf.function(autograph=False, jit_compile=True)
def step(x, cotangent):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = block(x)[0]
    return y, tape.gradient(y, x, output_gradients=cotangent)


x = tf.ones([4])
assert step.experimental_get_compiler_ir(x, x)(stage="optimized_hlo").count(" sine(") > 1
