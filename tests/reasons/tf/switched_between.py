"""A rerun reads a switch as it is when the tape is asked for gradients."""

import tensorflow as tf

REASON = "The rerun calls the function anew, and what the function reads from outside"


def differs(changed: bool) -> bool:
    """Whether the gradient of an exponential is another; with the change, the switch stays off."""
    switch = []

    def region(x):
        return tf.exp(-x if switch else x)

    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.recompute_grad(region)(x)
    if not changed:
        switch.append("on")
    return abs(float(tape.gradient(y, x) - y)) > 1e-3
