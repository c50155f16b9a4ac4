"""A recomputed function that also returns a number cannot be differentiated."""

import tensorflow as tf

block = tf.recompute_grad(lambda x: (tf.sin(x), 3))
x = tf.constant(1.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y, _ = block(x)
try:
    tape.gradient(y, x)
except AttributeError as error:
    assert "'int' object has no attribute 'dtype'" in str(error)
else:
    raise AssertionError("no error is raised")
