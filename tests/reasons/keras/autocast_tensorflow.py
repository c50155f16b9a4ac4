"""The rerun of a layer under mixed precision reads its variables in float32, and its gradient fails."""

import keras
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "The scope in which variables are read in the dtype of a layer's policy"


def differs(changed: bool) -> bool:
    """Whether backward raises an error; with the change, what is recomputed opens the scope."""
    with keras.RematScope(None if changed else "full"):
        layer = keras.layers.Dense(2, dtype="mixed_bfloat16")
    x = tf.ones((2, 3))
    layer.build(x.shape)
    with tf.GradientTape() as tape:
        y = keras.remat(layer)(x) if changed else layer(x)
        loss = tf.reduce_sum(y)
    try:
        tape.gradient(loss, layer.trainable_weights[0].value)
    except tf.errors.InvalidArgumentError as error:
        return "bfloat16" in str(error)
    return False
