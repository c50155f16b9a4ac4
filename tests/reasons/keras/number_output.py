"""A number among the outputs of a region ends its gradient."""

import keras
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "A number among the outputs becomes a tensor in forward"


def differs(changed: bool) -> bool:
    """Whether the gradient raises; with the change, the region makes a tensor of the number."""
    region = keras.remat(lambda x: (tf.sin(x), tf.constant(3) if changed else 3))
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, number = region(x)
    assert isinstance(number, tf.Tensor)
    try:
        tape.gradient(y, x)
    except AttributeError as error:
        return "'int' object has no attribute 'dtype'" in str(error)
    return False
