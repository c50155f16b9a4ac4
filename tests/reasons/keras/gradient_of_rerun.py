"""The gradient of a region has the numbers that the rerun drew."""

import keras
import numpy as np
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "The gradient belongs to the numbers of the rerun"


def differs(changed: bool) -> bool:
    """Whether the gradient is the rerun's noise alone; with the change, a number as seed fixes it."""
    drawn = []

    @keras.remat
    def region(x):
        drawn.append(keras.random.uniform((8,), seed=3 if changed else None))
        return x * drawn[-1]

    x = tf.ones(8)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = region(x)
    gradient = tape.gradient(y, x)
    assert np.array_equal(gradient, drawn[1])
    return not np.array_equal(gradient, drawn[0])
