"""A variable that a function under `keras.remat` assigns holds a JAX tracer afterwards."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np


def shows():
    layer = keras.layers.BatchNormalization()
    layer.build((4, 3))
    x = np.arange(12, dtype="float32").reshape(4, 3)
    fixed = [v.value for v in layer.trainable_variables]
    moving = [v.value for v in layer.non_trainable_variables]

    def loss(x):
        with keras.StatelessScope(zip(layer.variables, fixed + moving, strict=True)) as scope:
            y = keras.remat(lambda x: layer(x, training=True))(x)
        mean = scope.get_current_value(layer.moving_mean)
        return (y**3).sum(), mean

    _, mean = jax.grad(loss, has_aux=True)(x)
    try:
        return not np.allclose(mean, 0.01 * x.mean(0))
    except jax.errors.TracerArrayConversionError:
        return True


assert shows()
