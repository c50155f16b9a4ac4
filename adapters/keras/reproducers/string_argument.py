"""A function under `keras.remat` with the JAX backend cannot take a string argument."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras


@keras.remat
def region(x, mode):
    return x * 2 if mode == "train" else x


try:
    region(3.0, "train")
except TypeError as error:
    assert "type <class 'str'> is not a valid JAX type" in str(error)
else:
    raise AssertionError("no error is raised")
