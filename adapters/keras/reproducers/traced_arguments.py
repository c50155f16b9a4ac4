"""In RematScope on JAX, a layer that tests a flag raises an unrelated error."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np


class Flagged(keras.layers.Layer):
    def call(self, x, training=False):
        return 2 * x if training else x


with keras.RematScope("full"):
    layer = Flagged()
try:
    layer(np.ones(3, "float32"), training=True)
except AttributeError as error:
    assert "no attribute '_error_repr'" in str(error)
else:
    raise AssertionError("no error is raised")
try:
    keras.remat(lambda x, mode: x * 2 if mode == "train" else x)(3.0, "train")
except TypeError as error:
    assert "type <class 'str'> is not a valid JAX type" in str(error)
else:
    raise AssertionError("no error is raised")
