"""The gradient is that of the parameters after an update between forward and backward."""

import tensorflow as tf

REASON = "The rerun reads the parameters as they are after the update"


def differs(changed: bool) -> bool:
    """Whether the gradient is not the plain one; with the change, the update comes after backward."""

    def gradient(block):
        x, w = tf.constant(1.0), tf.Variable(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = block(x, w)
        if not changed:
            w.assign(5.0)
        found = tape.gradient(y, x)
        w.assign(5.0)
        return float(found)

    def block(x, w):
        return x * w

    return gradient(block) != gradient(tf.recompute_grad(block))
