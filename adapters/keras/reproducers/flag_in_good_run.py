"""A layer under RematScope raises for a flag argument, whether the flag is true or false."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np


class Flagged(keras.layers.Layer):
    """A layer that raises where its flag is true, which it takes or has."""

    flag = False

    def call(self, x, flag=None):
        if self.flag if flag is None else flag:
            raise ValueError("flag")
        return x * 2


def shows():
    with keras.RematScope("full"):
        layer = Flagged()
    x = np.ones(3, "float32")
    keras.config.disable_traceback_filtering()
    try:
        return not np.array_equal(layer(x, flag=False), 2 * x)
    except jax.errors.TracerBoolConversionError:
        return True
    finally:
        keras.config.enable_traceback_filtering()


assert shows()
