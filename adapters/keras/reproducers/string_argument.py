"""A function under `keras.remat` with the JAX backend cannot take a string argument."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras


def shows():
    def region(x, mode):
        return x * 2 if mode == "train" else x

    recomputed = keras.remat(region)
    try:
        return float(recomputed(3.0, "train")) != 6.0
    except TypeError as error:
        return "type <class 'str'> is not a valid JAX type" in str(error)


assert shows()
