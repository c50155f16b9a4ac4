"""A tensor that a recomputed function reads by closure gets no gradient."""

import tensorflow as tf

x, y = tf.constant(2.0), tf.constant(3.0)
with tf.GradientTape() as tape:
    tape.watch([x, y])
    z = tf.recompute_grad(lambda x: x * y)(x)
assert tape.gradient(z, y) is None
