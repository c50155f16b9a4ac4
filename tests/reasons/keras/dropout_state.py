"""The rerun of a dropout has another mask than the forward: the global SeedGenerator has moved on."""

import keras
import numpy as np
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "Dropout draws from the global SeedGenerator"


def differs(changed: bool) -> bool:
    """Whether the gradient has another mask; with the change, the region seeds the generator anew."""

    @keras.remat
    def region(x):
        if changed:
            keras.utils.set_random_seed(0)
        return keras.random.dropout(x, 0.5)

    keras.utils.set_random_seed(0)
    x = tf.ones(64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = region(x)
    return not np.array_equal(tape.gradient(y, x), y)
