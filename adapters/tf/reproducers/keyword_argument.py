"""A tensor passed by keyword gets no gradient eagerly, and is refused in a `tf.function`."""

import tensorflow as tf

x, y = tf.constant(2.0), tf.constant(3.0)
multiply = tf.recompute_grad(lambda x, y: x * y)


def call(x, y):
    return multiply(x, y=y)


with tf.GradientTape() as tape:
    tape.watch([x, y])
    z = call(x, y)
try:
    tf.function(call, autograph=False)(x, y)
except ValueError as error:
    refused = "keywords arguments" in str(error)
else:
    refused = False
assert tape.gradient(z, y) is None
assert refused
