"""A recomputed function that computes a gradient itself gets None."""

import tensorflow as tf

slopes = []


def block(x):
    y = tf.exp(x)
    with tf.GradientTape() as tape:
        tape.watch(y)
        total = tf.reduce_sum(tf.sin(y))
    slope = tape.gradient(total, y)
    slopes.append(slope)
    return y if slope is None else tf.sin(slope)


block(tf.ones([2]))
tf.recompute_grad(block)(tf.ones([2]))
assert slopes[0] is not None
assert slopes[1] is None
