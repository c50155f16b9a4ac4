"""The jacobian of a tensor without elements raises if a recomputed function adds to a variable."""

import tensorflow as tf

total = tf.Variable(tf.zeros(4), trainable=False)


def block(x):
    total.assign_add(tf.reduce_sum(x, axis=0))
    return tf.sin(x)


def jacobian(function):
    x = tf.ones((0, 4))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.jacobian(y, x)


assert jacobian(block).shape == (0, 4, 0, 4)
try:
    jacobian(tf.recompute_grad(block))
except tf.errors.InvalidArgumentError as error:
    assert "UnsortedSegmentSum" in str(error)
else:
    raise AssertionError("no error")
