"""A layer under RematScope raises for the flag that it takes, whatever the flag's value is."""

import jax
import keras
import numpy as np

ENVIRONMENT = {"KERAS_BACKEND": "jax"}
REASON = "A tracer is made of the flag in the good run as well"


class Flagged(keras.layers.Layer):
    """A layer that raises where its flag is true, which it takes or has."""

    flag = False

    def call(self, x, flag=None):
        if self.flag if flag is None else flag:
            raise ValueError("flag")
        return x * 2


def differs(changed: bool) -> bool:
    """Whether a false flag raises too; with the change, it is an attribute and no argument."""
    with keras.RematScope("full"):
        layer = Flagged()
    x = np.ones(3, "float32")
    keras.config.disable_traceback_filtering()
    try:
        return not np.array_equal(layer(x) if changed else layer(x, flag=False), 2 * x)
    except jax.errors.TracerBoolConversionError:
        return True
    finally:
        keras.config.enable_traceback_filtering()
