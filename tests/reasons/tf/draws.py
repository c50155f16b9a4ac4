"""A recomputed function draws other numbers in the rerun, unless the operation is stateless."""

import tensorflow as tf

REASON = "recompute_grad does nothing about random state"


def differs(changed: bool) -> bool:
    """Whether the rerun draws other numbers; with the change, by a stateless operation."""
    tf.random.set_seed(0)
    draws = []

    @tf.recompute_grad
    def block(x):
        if changed:
            draws.append(tf.random.stateless_uniform([4], seed=(1, 2)))
        else:
            draws.append(tf.random.uniform([4]))
        return x * draws[-1]

    x = tf.ones([4])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = block(x)
    tape.gradient(y, x)
    forward, rerun = draws
    return not (forward.numpy() == rerun.numpy()).all()
