"""A tensor that is given to a region by name gets no gradient."""

import keras
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "tf.recompute_grad passes gradients to positional arguments alone"


def differs(changed: bool) -> bool:
    """Whether the gradient is None; with the change, the tensor is given by position."""
    x, y = tf.constant(2.0), tf.constant(3.0)
    region = keras.remat(lambda x, y: x * y)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        z = region(x, y) if changed else region(x, y=y)
    return tape.gradient(z, y) is None
