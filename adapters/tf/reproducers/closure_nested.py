"""The gradient of an outer function lacks what an inner recomputed function captures from it."""

import tensorflow as tf


@tf.recompute_grad
def outer(x):
    h = x * x
    return tf.recompute_grad(lambda x: x * h)(x)


x = tf.constant(2.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = outer(x)
assert float(tape.gradient(y, x)) != 12.0
