"""Mode `larger_than` calls a layer once more, and draws of NumPy inside of it move on."""

import keras
import numpy as np

ENVIRONMENT = {"KERAS_BACKEND": "jax"}
REASON = "Before each call, mode `larger_than` calls the layer once more"


class Noisy(keras.layers.Layer):
    """A layer that multiplies with a number of NumPy's."""

    def __init__(self):
        super().__init__()
        self.generator = np.random.default_rng(0)

    def call(self, x):
        return x * self.generator.uniform()


def differs(changed: bool) -> bool:
    """Whether the output has not the first number; with the change, the mode is `full`."""
    with (
        keras.RematScope("full")
        if changed
        else keras.RematScope("larger_than", output_size_threshold=1)
    ):
        layer = Noisy()
    output = layer(np.ones(4, "float32"))
    return not np.allclose(output, np.random.default_rng(0).uniform())
