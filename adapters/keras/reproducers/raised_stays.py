"""Captured arrays are never freed if a layer raises while `jax.checkpoint` traces it."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import contextlib
import gc

import jax
import keras


class Raising(keras.layers.Layer):
    def call(self, x):
        _ = x * self.w
        raise ValueError("raised")


def loss(w):
    with keras.RematScope("full"):
        layer = Raising()
    layer.w = w
    return layer(jax.numpy.ones(3))


gc.collect()
before = len(jax.live_arrays())
for _ in range(3):
    with contextlib.suppress(ValueError):
        jax.grad(loss)(jax.numpy.ones(3))
gc.collect()
# The arrays are not held by a cache.
jax.clear_caches()
assert len(jax.live_arrays()) - before >= 3
