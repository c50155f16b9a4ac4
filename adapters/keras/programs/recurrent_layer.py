"""On JAX, a recurrent layer that is made in `RematScope` raises an error when it is called."""

import contextlib
import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np

plain = contextlib.nullcontext


def recomputed():
    return keras.RematScope("full")


def run(scope):
    with scope():
        model = keras.Sequential([keras.Input((3, 4)), keras.layers.LSTM(2)])
    model.compile("sgd", "mse")
    x, y = np.random.rand(8, 3, 4), np.random.rand(8, 2)
    return model.fit(x, y, epochs=2, verbose=0).history["loss"]
