"""A function is recomputed for a gradient of zeros, because the next one stops the gradient."""

import tensorflow as tf

calls = []


@tf.recompute_grad
def first(x):
    calls.append(x)
    return tf.sin(x)


x, y = tf.constant(1.0), tf.constant(2.0)
with tf.GradientTape() as tape:
    tape.watch([x, y])

    def second(h, y):
        return tf.stop_gradient(h) * y

    z = tf.recompute_grad(second)(first(x), y)
tape.gradient(z, [x, y])
assert len(calls) == 2
