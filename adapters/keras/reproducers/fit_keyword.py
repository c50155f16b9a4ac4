"""In RematScope, a Dense layer cannot be trained, because Keras passes `training` by keyword."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np

with keras.RematScope("full"):
    layer = keras.layers.Dense(1)
model = keras.Sequential([layer])
model.compile("sgd", "mse", run_eagerly=False)
try:
    model.fit(np.ones((2, 3)), np.ones((2, 1)), verbose=0)
except ValueError as error:
    assert "supports keywords arguments only when eager" in str(error)
else:
    raise AssertionError("no error is raised")
