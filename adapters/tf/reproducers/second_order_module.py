"""A second-order gradient of a recomputed `tf.Module` raises an unrelated `AttributeError`."""

import tensorflow as tf


class Block(tf.Module):
    def __call__(self, x):
        return x * x * x


x = tf.constant(2.0)
with tf.GradientTape() as outer:
    outer.watch(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.recompute_grad(Block())(x) ** 2
    first = tape.gradient(y, x)
raised = None
try:
    outer.gradient(first, x)
except (AttributeError, NotImplementedError) as error:
    raised = error
assert isinstance(raised, AttributeError)
assert "__name__" in str(raised)
