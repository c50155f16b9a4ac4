"""A layer in the scope that tests `training` cannot be trained: it is given a tracer."""

import keras
import numpy as np
from keras import ops

ENVIRONMENT = {"KERAS_BACKEND": "jax"}
REASON = "Keras hands a layer `training` by name, and jax.checkpoint makes a tracer of it"


class Tested(keras.layers.Layer):
    """Doubles what it is given in training, as Python decides."""

    def call(self, x, training=False):
        return 2 * x if training else x


class Chosen(keras.layers.Layer):
    """The same, as JAX decides."""

    def call(self, x, training=False):
        return ops.where(training, 2 * x, x)


def differs(changed: bool) -> bool:
    """Whether `fit` raises an error; with the change, nothing in the layer tests what it is given."""
    with keras.RematScope("full"):
        layer = Chosen() if changed else Tested()
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    try:
        model.fit(np.ones((2, 3)), np.ones((2, 1)), verbose=0)
    except RuntimeError as error:
        return "no attribute '_error_repr'" in str(error)
    return False
