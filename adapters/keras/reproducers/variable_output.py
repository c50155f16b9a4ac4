"""A recomputed function that returns a variable as it is raises an error on JAX."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
from keras import ops

weight = keras.Variable([1.0, 2.0])
x = ops.convert_to_tensor([0.5, 0.5])


def block(x):
    return ops.sin(x), weight


block(x)
try:
    keras.remat(block)(x)
except ValueError as error:
    assert "Triggering __jax_array__() during abstractification" in str(error)
else:
    raise AssertionError("no error is raised")
