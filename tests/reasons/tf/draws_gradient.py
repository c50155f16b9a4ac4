"""The gradient through a recomputed function is that of the numbers which its rerun drew."""

import tensorflow as tf

REASON = "The gradient belongs to the numbers of the rerun"


def differs(changed: bool) -> bool:
    """Whether it is the rerun's and not the forward's; with the change, a stateless operation draws."""
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
    gradient = tape.gradient(y, x).numpy()
    forward, rerun = (draw.numpy() for draw in draws)
    return bool((gradient == rerun).all() and (gradient != forward).any())
