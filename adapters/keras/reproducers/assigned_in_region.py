"""A variable that is assigned in a function under `keras.remat` holds a JAX tracer afterwards."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np

layer = keras.layers.BatchNormalization()
layer.build((4, 3))
x = np.arange(12, dtype="float32").reshape(4, 3)
values = [variable.value for variable in layer.variables]


def loss(x):
    with keras.StatelessScope(zip(layer.variables, values, strict=True)) as scope:
        y = keras.remat(lambda x: layer(x, training=True))(x)
    return (y**3).sum(), scope.get_current_value(layer.moving_mean)


_, mean = jax.grad(loss, has_aux=True)(x)
try:
    np.asarray(mean)
except jax.errors.TracerArrayConversionError:
    pass
else:
    raise AssertionError("the new moving mean is an array")
