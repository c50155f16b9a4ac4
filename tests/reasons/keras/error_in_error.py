"""Where a layer tests its flag under RematScope, Keras fails while it handles the error of JAX."""

import jax
import keras
import numpy as np

ENVIRONMENT = {"KERAS_BACKEND": "jax"}
REASON = "jax.checkpoint makes a tracer of the flag, which Python cannot test"


class Flagged(keras.layers.Layer):
    """A layer that does nothing, or twice that."""

    def call(self, x, flag):
        return x * 2 if flag else x


def differs(changed: bool) -> bool:
    """Whether the error is another one; with the change, tracebacks are not filtered."""
    with keras.RematScope("full"):
        recomputed = Flagged()
    plain, x = Flagged(), np.ones(3, "float32")
    if changed:
        keras.config.disable_traceback_filtering()
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
    return found[0]
