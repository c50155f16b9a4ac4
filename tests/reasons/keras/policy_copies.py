"""A layer in the scope keeps a copy of what it is given, in the dtype of its policy."""

import jax
import jax.numpy as jnp
import keras

ENVIRONMENT = {"KERAS_BACKEND": "jax"}
REASON = "Layer.__call__ casts what the layer is given to the dtype of its policy"


def differs(changed: bool) -> bool:
    """Whether an array is kept beside the input and the output; with the change, there is nothing to
    cast."""
    with keras.RematScope("full"):
        layer = keras.layers.Activation("tanh", dtype="mixed_bfloat16")
    x = jnp.ones((5, 7), "bfloat16" if changed else "float32")
    before = {id(array) for array in jax.live_arrays()}
    y, vjp = jax.vjp(layer, x)
    kept = [a for a in jax.live_arrays() if id(a) not in before and a.shape == x.shape]
    assert vjp(y)
    return any(array is not y for array in kept)
