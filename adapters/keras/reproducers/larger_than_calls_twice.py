"""Mode `larger_than` calls a layer twice in forward, so it uses the second number of a generator."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np


class Noisy(keras.layers.Layer):
    """A layer that multiplies by a random number of NumPy."""

    def __init__(self):
        super().__init__()
        self.generator = np.random.default_rng(0)

    def call(self, x):
        return x * self.generator.uniform()


with keras.RematScope("larger_than", output_size_threshold=1):
    layer = Noisy()
output = layer(np.ones(4, "float32"))
assert not np.allclose(output, np.random.default_rng(0).uniform())
