"""A Dense layer in the scope cannot be trained: the compiled step hands it `training` by name."""

import keras
import numpy as np

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "fit compiles the step, and Keras hands a layer `training` by name"


def differs(changed: bool) -> bool:
    """Whether `fit` raises the error; with the change, the step is not compiled."""
    with keras.RematScope("full"):
        layer = keras.layers.Dense(1)
    model = keras.Sequential([layer])
    model.compile("sgd", "mse", run_eagerly=changed)
    try:
        model.fit(np.ones((2, 3)), np.ones((2, 1)), verbose=0)
    except ValueError as error:
        return "supports keywords arguments only when eager" in str(error)
    return False
