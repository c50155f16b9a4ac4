"""A region that computes something else in the rerun has other gradients, without an error."""

import keras
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "Nothing compares the values"


def differs(changed: bool) -> bool:
    """Whether the gradient is another one; with the change, the rerun does what the forward did."""
    calls = []

    def region(x):
        calls.append(x)
        return tf.sin(x) if changed or len(calls) == 1 else tf.exp(x)

    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = keras.remat(region)(x)
    return abs(float(tape.gradient(y, x)) - float(tf.cos(x))) > 1e-3
