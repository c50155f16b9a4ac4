"""In RematScope, a layer keeps a copy of its input in the compute dtype of its policy."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import jax.numpy as jnp
import keras

with keras.RematScope("full"):
    layer = keras.layers.Activation("tanh", dtype="mixed_bfloat16")
x = jnp.ones((5, 7), "float32")
before = {id(array) for array in jax.live_arrays()}
y, vjp = jax.vjp(layer, x)
kept = [a for a in jax.live_arrays() if id(a) not in before and a.shape == x.shape]
assert vjp(y)
assert any(array is not y for array in kept)
