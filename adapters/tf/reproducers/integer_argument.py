"""A Python integer that is an argument is a tensor of integers in the recomputation."""

import tensorflow as tf


def block(x, times):
    return x * times


x = tf.constant([1.0, 2.0])
with tf.GradientTape() as tape:
    tape.watch(x)
    y = block(x, 3)
assert tape.gradient(y, x).numpy().tolist() == [3.0, 3.0]

with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.recompute_grad(block)(x, 3)
try:
    tape.gradient(y, x)
except tf.errors.InvalidArgumentError as error:
    assert "float tensor but is a int32 tensor" in str(error)
else:
    raise AssertionError("backward raised no error")
