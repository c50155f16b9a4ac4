"""A function that does something else in the rerun gives another gradient, without an error."""

import tensorflow as tf

REASON = "Nothing compares what the rerun computes with what the forward computed"


def differs(changed: bool) -> bool:
    """Whether the gradient is not the plain one; with the change, the function does the same again."""
    factors = iter([2.0, 2.0] if changed else [2.0, 5.0])
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.recompute_grad(lambda x: next(factors) * x)(x)
    return float(tape.gradient(y, x)) != 2.0
