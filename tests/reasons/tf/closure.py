"""A tensor read by closure gets no gradient through tf.recompute_grad; one that is an argument does."""

import tensorflow as tf

REASON = (
    "recompute_grad passes gradients to its arguments and to trainable variables alone. A tensor"
)


def differs(changed: bool) -> bool:
    """Whether the gradient of `y` is None; with the change, `y` is an argument."""
    x, y = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        if changed:
            z = tf.recompute_grad(lambda x, y: x * y)(x, y)
        else:
            z = tf.recompute_grad(lambda x: x * y)(x)
    return tape.gradient(z, y) is None
