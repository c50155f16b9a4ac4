"""In a graph, `tf.recompute_grad` turns a bool argument into a tensor, on which Python cannot branch."""

import tensorflow as tf


def block(x, double):
    return 2.0 * x if double else x


@tf.function(autograph=False)
def call(x):
    return tf.recompute_grad(block)(x, True)


raised = False
try:
    call(tf.constant(1.0))
except tf.errors.OperatorNotAllowedInGraphError:
    raised = True
assert raised
