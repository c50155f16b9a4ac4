"""XLA removes a product of a tensor without elements, recomputed or not."""

import tensorflow as tf

w, x = tf.Variable(tf.ones([4, 4])), tf.ones([0, 4])


def products(block):
    @tf.function(autograph=False, jit_compile=True)
    def step(x, cotangent):
        with tf.GradientTape() as tape:
            y = block(x)
        return y, tape.gradient(y, w, output_gradients=cotangent)

    return step.experimental_get_compiler_ir(x, x)(stage="optimized_hlo").count(" dot(")


def block(x):
    return tf.sin(x @ w)


assert products(block) == products(tf.recompute_grad(block)) == 0
