"""What a region has captured is not freed when the region raises while jax.checkpoint traces it."""

import contextlib
import gc

import jax
import keras

ENVIRONMENT = {"KERAS_BACKEND": "jax"}
REASON = "As with jax.checkpoint, a function that raises while it is traced"


class Raising(keras.layers.Layer):
    """A layer that reads an array, which it takes or has, and raises."""

    def call(self, x, w=None):
        _ = x * (self.w if w is None else w)
        raise ValueError("raised")


def differs(changed: bool) -> bool:
    """Whether arrays live on; with the change, the layer captures none, it is an argument."""

    def loss(w):
        with keras.RematScope("full"):
            layer = Raising()
        layer.w = w
        return layer(jax.numpy.ones(3), w) if changed else layer(jax.numpy.ones(3))

    gc.collect()
    before = len(jax.live_arrays())
    for _ in range(3):
        with contextlib.suppress(ValueError):
            jax.grad(loss)(jax.numpy.ones(3))
    gc.collect()
    # It is no cache that holds them.
    jax.clear_caches()
    return len(jax.live_arrays()) - before >= 3
