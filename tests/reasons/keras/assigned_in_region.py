"""A variable that a region assigns to holds a tracer afterwards."""

import jax
import keras
import numpy as np

ENVIRONMENT = {"KERAS_BACKEND": "jax"}
REASON = "A variable that a recomputed region assigns to holds a tracer"


def differs(changed: bool) -> bool:
    """Whether the mean cannot be read; with the change, `stateless_call` is inside the region."""
    layer = keras.layers.BatchNormalization()
    layer.build((4, 3))
    x = np.arange(12, dtype="float32").reshape(4, 3)
    fixed = [v.value for v in layer.trainable_variables]
    moving = [v.value for v in layer.non_trainable_variables]

    def loss(x):
        if changed:
            region = keras.remat(lambda *given: layer.stateless_call(*given, training=True))
            y, (mean, _) = region(fixed, moving, x)
        else:
            with keras.StatelessScope(zip(layer.variables, fixed + moving, strict=True)) as scope:
                y = keras.remat(lambda x: layer(x, training=True))(x)
            mean = scope.get_current_value(layer.moving_mean)
        return (y**3).sum(), mean

    _, mean = jax.grad(loss, has_aux=True)(x)
    try:
        return not np.allclose(mean, 0.01 * x.mean(0))
    except jax.errors.TracerArrayConversionError:
        return True
