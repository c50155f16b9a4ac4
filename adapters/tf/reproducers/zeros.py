"""An argument that is not read, or whose gradient is stopped, gets zeros instead of None."""

import tensorflow as tf


def block(x, unread, stopped):
    return x * tf.stop_gradient(stopped)


values = [tf.constant(1.0), tf.constant(2.0), tf.constant(3.0)]
with tf.GradientTape() as tape:
    tape.watch(values)
    y = tf.recompute_grad(block)(*values)
assert all(
    gradient is not None and float(gradient) == 0.0 for gradient in tape.gradient(y, values[1:])
)
