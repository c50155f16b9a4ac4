"""A layer under RematScope raises for a flag argument, whether the flag is true or false."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np


class Flagged(keras.layers.Layer):
    def call(self, x, flag):
        if flag:
            raise ValueError("flag")
        return x * 2


with keras.RematScope("full"):
    layer = Flagged()
keras.config.disable_traceback_filtering()
try:
    layer(np.ones(3, "float32"), flag=False)
except jax.errors.TracerBoolConversionError:
    pass
else:
    raise AssertionError("no error is raised")
finally:
    keras.config.enable_traceback_filtering()
