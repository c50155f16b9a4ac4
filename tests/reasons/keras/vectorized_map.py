"""Nothing of a region inside of vectorized_map runs again in backward."""

import keras
import tensorflow as tf
from keras import ops

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "tf.vectorized_map, which keras.ops.vectorized_map calls"


def differs(changed: bool) -> bool:
    """Whether backward calls the region's function no more; with the change, it is not mapped."""
    calls = []

    def region(x):
        calls.append(x)
        return ops.exp(ops.sin(x))

    x = tf.ones((3, 4))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = keras.remat(region)(x) if changed else ops.vectorized_map(keras.remat(region), x)
    before = len(calls)
    tape.gradient(y, x)
    return len(calls) == before
