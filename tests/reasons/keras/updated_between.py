"""A variable that is updated before backward changes the gradient of a region that reads it."""

import keras
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "The rerun reads the parameters as they are after the update"


def differs(changed: bool) -> bool:
    """Whether the gradient is not the plain one; with the change, the update comes after it."""

    def gradient(how):
        x, w = tf.constant(2.0), keras.Variable(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = how(lambda x: tf.sin(x * w))(x)
        if not changed:
            w.assign(5.0)
        return float(tape.gradient(y, x))

    return abs(gradient(keras.remat) - gradient(lambda f: f)) > 1e-3
