"""Under RematScope, a layer that tests a flag raises AttributeError instead of JAX's error."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np


class Flagged(keras.layers.Layer):
    def call(self, x, flag):
        return x * 2 if flag else x


with keras.RematScope("full"):
    layer = Flagged()
try:
    layer(np.ones(3, "float32"), flag=True)
except AttributeError as error:
    assert "no attribute '_error_repr'" in str(error)
else:
    raise AssertionError("no error is raised")
