"""With XLA, a function is not recomputed without arguments or a gradient of its first output."""

import tensorflow as tf

w, x = tf.Variable(tf.ones([4, 4])), tf.ones([4, 4])


def products(forward):
    """The products in the compiled program of a step."""

    @tf.function(autograph=False, jit_compile=True)
    def step(x, cotangent):
        with tf.GradientTape() as tape:
            y = forward(x)
        return y, tape.gradient(y, w, output_gradients=cotangent)

    return step.experimental_get_compiler_ir(x, x)(stage="optimized_hlo").count(" dot(")


def block(x, w):
    h = tf.sin(x @ w)
    return tf.cos(h), tf.exp(h)


without_arguments = products(lambda x: tf.recompute_grad(lambda: tf.sin(x @ w))())
assert without_arguments == products(lambda x: tf.sin(x @ w))
second_output = products(lambda x: tf.recompute_grad(block)(x, w)[1])
assert second_output == products(lambda x: block(x, w)[1])
