"""In RematScope, a layer that tests `training` cannot be trained, because it receives a tracer."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np


class Tested(keras.layers.Layer):
    """Doubles what it is given in training, as Python decides."""

    def call(self, x, training=False):
        return 2 * x if training else x


with keras.RematScope("full"):
    layer = Tested()
model = keras.Sequential([layer, keras.layers.Dense(1)])
model.compile("sgd", "mse")
try:
    model.fit(np.ones((2, 3)), np.ones((2, 1)), verbose=0)
except RuntimeError as error:
    assert "no attribute '_error_repr'" in str(error)
else:
    raise AssertionError("no error is raised")
