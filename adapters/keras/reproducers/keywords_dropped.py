"""Up to Keras 3.12, a recomputed function gets no keyword arguments on the PyTorch backend."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras


@keras.remat
def block(x, y):
    return keras.ops.sin(x) * y


x = keras.ops.ones(3)
try:
    block(x, y=x)
except TypeError as error:
    assert "missing 1 required positional argument" in str(error)
else:
    raise AssertionError("no error is raised")
