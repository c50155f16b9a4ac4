"""A tensor given by name gets no gradient eagerly; in a tf.function it is refused."""

import tensorflow as tf

REASON = "A tensor given by name silently gets no gradient in eager mode"


def differs(changed: bool) -> bool:
    """Whether `y` gets no gradient, and a graph refuses; with the change, `y` has no name."""
    x, y = tf.constant(2.0), tf.constant(3.0)
    multiply = tf.recompute_grad(lambda x, y: x * y)

    def call(x, y):
        return multiply(x, y) if changed else multiply(x, y=y)

    with tf.GradientTape() as tape:
        tape.watch([x, y])
        z = call(x, y)
    try:
        tf.function(call, autograph=False)(x, y)
    except ValueError as error:
        refused = "keywords arguments" in str(error)
    else:
        refused = False
    return tape.gradient(z, y) is None and refused
