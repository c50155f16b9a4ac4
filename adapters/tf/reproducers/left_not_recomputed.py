"""What a function leaves in a list is not recomputed where the tape is around a `tf.function`."""

import tensorflow as tf

w, x = tf.Variable(tf.ones([4, 4])), tf.ones([4, 4])
kept = []


def block(x):
    kept.append(tf.exp(tf.sin(x @ w)))
    return kept[-1]


def recomputed(read):
    """How often backward computes the sine, for a loss that `read` makes."""

    @tf.function(autograph=False)
    def step(x):
        return tf.reduce_sum(read(tf.recompute_grad(block)(x)))

    with tf.GradientTape() as tape:
        loss = step(x)
    assert tf.reduce_any(tape.gradient(loss, w) != 0)
    _, backward = step.get_concrete_function(x)._delayed_rewrite_functions.forward_backward()
    return [op.type for op in backward.graph.get_operations()].count("Sin")


assert recomputed(lambda result: result) == 1
assert recomputed(lambda result: kept.pop()) == 0
