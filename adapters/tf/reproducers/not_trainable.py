"""A variable that is watched, but not trainable, gets no gradient through a recomputed function."""

import tensorflow as tf

w = tf.Variable(2.0, trainable=False)


def function(x):
    return tf.sin(x * w)


def gradient(call):
    with tf.GradientTape() as tape:
        tape.watch(w)
        y = call(tf.constant(1.0))
    return tape.gradient(y, w)


assert gradient(function) is not None
assert gradient(tf.recompute_grad(function)) is None
