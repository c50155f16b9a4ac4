"""A recomputed function that returns a number has no gradient; one that returns a tensor of it has."""

import tensorflow as tf

REASON = "A number among the outputs becomes a tensor in forward"


def differs(changed: bool) -> bool:
    """Whether the gradient fails; with the change, the number is a tensor."""
    block = tf.recompute_grad(lambda x: (tf.sin(x), tf.constant(3) if changed else 3))
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, _ = block(x)
    try:
        tape.gradient(y, x)
    except AttributeError as error:
        return "'int' object has no attribute 'dtype'" in str(error)
    return False
