"""`GradientTape.jacobian` cannot vectorize the recomputation of a `tf.cond` that nothing reads."""

import tensorflow as tf

w = tf.Variable(tf.ones((4, 3)))


def block(x):
    unused = tf.cond(tf.reduce_sum(w) > 0, lambda: tf.sin(w), lambda: tf.cos(w))
    return tf.transpose(x), unused


def jacobian(function):
    x = tf.ones((3, 4))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, _ = function(x)
        y = tf.sin(y)
    return tape.jacobian(y, x)


assert jacobian(block).shape == (4, 3, 3, 4)
raised = None
try:
    jacobian(tf.recompute_grad(block))
except ValueError as error:
    raised = error
assert "vectorizing the jacobian" in str(raised)
