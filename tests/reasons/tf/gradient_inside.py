"""A recomputed function cannot take a gradient of what it computes itself."""

import tensorflow as tf

REASON = "Of what a recomputed function computes, forward records nothing"


def differs(changed: bool) -> bool:
    """Whether the slope is None in it alone; with the change, the slope is written out."""
    slopes = []

    def block(x):
        y = tf.exp(x)
        if changed:
            slope = tf.cos(y)
        else:
            with tf.GradientTape() as tape:
                tape.watch(y)
                total = tf.reduce_sum(tf.sin(y))
            slope = tape.gradient(total, y)
        slopes.append(slope)
        return y if slope is None else tf.sin(slope)

    block(tf.ones([2]))
    tf.recompute_grad(block)(tf.ones([2]))
    return slopes[0] is not None and slopes[1] is None
