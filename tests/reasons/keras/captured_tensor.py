"""A tensor that a region reads by closure gets no gradient."""

import keras
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "tf.recompute_grad passes gradients to its arguments and to variables alone."


def differs(changed: bool) -> bool:
    """Whether the gradient is None; with the change, the tensor is an argument."""
    x, y = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        z = keras.remat(lambda x, y: x * y)(x, y) if changed else keras.remat(lambda x: x * y)(x)
    return tape.gradient(z, y) is None
