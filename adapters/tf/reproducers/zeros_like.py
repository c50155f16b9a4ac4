"""A forward graph passes whole tensors to backward only to make zeros in their shapes."""

import tensorflow as tf


def handed(function, x):
    """The shapes of the tensors that forward passes to backward as inputs of ZerosLike."""
    concrete = tf.function(function, autograph=False).get_concrete_function(x)
    _, backward = concrete._delayed_rewrite_functions.forward_backward()
    made = [op for op in backward.graph.get_operations() if op.type == "ZerosLike"]
    return [tuple(op.inputs[0].shape) for op in made if op.inputs[0].op.type == "Placeholder"]


table = tf.Variable(tf.ones([100, 4]))


def block(indices):
    rows = tf.gather(table, indices)
    return tf.sin(rows), tf.reduce_sum(rows, axis=1)


def step(indices):
    return tf.recompute_grad(block)(indices)[0]


shapes = handed(step, tf.constant([1, 2, 3]))
assert (100, 4) in shapes
assert (3,) in shapes
