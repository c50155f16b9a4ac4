"""Training with a recomputed dropout gives other losses from the second step on."""

import tensorflow as tf


def losses(block):
    """The losses of two steps in one tf.function."""
    tf.random.set_seed(0)
    w = tf.Variable(tf.ones([64]))

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(block(x * w) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    return [float(step(tf.linspace(0.0, 1.0, 64))) for _ in range(2)]


def block(x):
    return tf.nn.dropout(x, 0.5)


plain, recomputed = losses(block), losses(tf.recompute_grad(block))
assert plain[0] == recomputed[0]
assert plain[1] != recomputed[1]
