"""Under RematScope, a layer that tests a flag raises AttributeError instead of JAX's error."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np


class Flagged(keras.layers.Layer):
    """A layer that does nothing, or twice that."""

    def call(self, x, flag):
        return x * 2 if flag else x


with keras.RematScope("full"):
    recomputed = Flagged()
plain, x = Flagged(), np.ones(3, "float32")
found = []
try:
    # A layer that is not recomputed meets the same under jax.jit.
    for call in (recomputed, jax.jit(lambda x, flag: plain(x, flag=flag))):
        try:
            call(x, flag=True)
        except (AttributeError, jax.errors.TracerBoolConversionError) as error:
            found.append("no attribute '_error_repr'" in str(error))
finally:
    keras.config.enable_traceback_filtering()
assert len(found) == 2, "no error"
assert found[0] == found[1]
assert found[0]
