"""A region runs again for the zeros that the region after it gives back."""

import keras
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "As with tf.recompute_grad: the second region only stops the gradient"


def differs(changed: bool) -> bool:
    """Whether the first region runs again; with the change, the second is not recomputed."""
    calls = []

    def first(x):
        calls.append(x)
        return tf.sin(x)

    def second(y, w):
        return tf.stop_gradient(y) * w

    x, w = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        z = (second if changed else keras.remat(second))(keras.remat(first)(x), w)
    tape.gradient(z, [x, w])
    return len(calls) > 1
