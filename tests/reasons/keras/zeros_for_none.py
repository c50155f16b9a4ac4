"""An argument that a region does not read, or whose gradient it stops, has a gradient of zeros."""

import keras
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "As with tf.recompute_grad: every argument gets a gradient, of zeros"


def differs(changed: bool) -> bool:
    """Whether the gradients are zero and not None; with the change, nothing is recomputed."""

    def region(x, stopped, unread):
        return x * tf.stop_gradient(stopped)

    values = [tf.constant(2.0), tf.constant(3.0), tf.constant(4.0)]
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = (region if changed else keras.remat(region))(*values)
    gradients = tape.gradient(y, values)[1:]
    return all(g is not None and float(g) == 0 for g in gradients)
