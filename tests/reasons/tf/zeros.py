"""tf.recompute_grad gives zeros to an argument that the function does not read, a tape gives None."""

import tensorflow as tf

REASON = "recompute_grad gives every argument a gradient, of zeros"


def differs(changed: bool) -> bool:
    """Whether two such arguments get zeros; with the change, the function is not recomputed."""

    def block(x, unread, stopped):
        return x * tf.stop_gradient(stopped)

    values = [tf.constant(1.0), tf.constant(2.0), tf.constant(3.0)]
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = (block if changed else tf.recompute_grad(block))(*values)
    return all(
        gradient is not None and float(gradient) == 0.0 for gradient in tape.gradient(y, values[1:])
    )
