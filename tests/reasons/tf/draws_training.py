"""Training with a recomputed dropout comes to other losses from the second step on."""

import tensorflow as tf

REASON = "Wrong gradients, by other dropout masks in the rerun"


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


def differs(changed: bool) -> bool:
    """Whether the second loss differs and the first not; with the change, dropout is stateless."""

    def block(x):
        if changed:
            return tf.nn.experimental.stateless_dropout(x, 0.5, seed=(1, 2))
        return tf.nn.dropout(x, 0.5)

    plain, recomputed = losses(block), losses(tf.recompute_grad(block))
    return plain[0] == recomputed[0] and plain[1] != recomputed[1]
