"""A region whose first output is complex has no gradient in a graph."""

import tensorflow as tf

REASON = "In a graph recompute_grad takes the maximum of the first output's gradient"


def differs(changed: bool) -> bool:
    """Whether it raises; with the change, a real number is the first output."""

    @tf.recompute_grad
    def region(x):
        c = tf.complex(tf.sin(x), tf.exp(x))
        return (tf.math.real(c), c) if changed else (c, tf.math.real(c))

    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            one, other = region(x)
            loss = tf.math.real(one) + tf.math.real(other)
        return tape.gradient(loss, x)

    try:
        gradient(tf.constant(1.0))
    except TypeError:
        return True
    return False
