"""What an inner region reads by closure is missing in the gradient of the outer one."""

import keras
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "What the inner function reads by closure silently gets no gradient"


def differs(changed: bool) -> bool:
    """Whether the outer gradient is not the plain one; with the change, the inner one is handed all."""

    def outer(x, how):
        y = tf.sin(x)
        if changed:
            return how(lambda x, y: x * y)(x, y)
        return how(lambda x: x * y)(x)

    def gradient(how):
        x = tf.constant(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = how(lambda x: outer(x, how))(x)
        return float(tape.gradient(z, x))

    return abs(gradient(keras.remat) - gradient(lambda f: f)) > 1e-3
