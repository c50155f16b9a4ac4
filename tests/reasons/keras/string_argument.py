"""A string as an argument of a region is refused."""

import jax
import keras

ENVIRONMENT = {"KERAS_BACKEND": "jax"}
REASON = "jax.checkpoint makes a tracer of every argument"


def differs(changed: bool) -> bool:
    """Whether the region raises; with the change, `static_argnums` leaves the argument alone."""

    def region(x, mode):
        return x * 2 if mode == "train" else x

    recomputed = jax.checkpoint(region, static_argnums=1) if changed else keras.remat(region)
    try:
        return float(recomputed(3.0, "train")) != 6.0
    except TypeError as error:
        return "type <class 'str'> is not a valid JAX type" in str(error)
