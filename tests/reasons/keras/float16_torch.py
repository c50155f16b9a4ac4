"""The rerun of a Dense layer under mixed_float16 on the CPU takes other weights, and nothing says so."""

import keras
import torch

ENVIRONMENT = {"KERAS_BACKEND": "torch"}
REASON = "Keras takes products of float16 in float32 on the CPU"


def differs(changed: bool) -> bool:
    """Whether the gradient of x differs from the plain one; with the change, what is recomputed opens
    the scope in which variables are read in float16."""

    def gradient(recomputed):
        keras.utils.set_random_seed(0)
        scoped = recomputed and not changed
        with keras.RematScope("full" if scoped else None):
            first = keras.layers.Dense(4, dtype="mixed_float16")
            second = keras.layers.Dense(4, dtype="mixed_float16")
        x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
        wrap = keras.remat if recomputed and changed else lambda layer: layer
        for layer in (first, second):
            layer.build(x.shape)
        torch.sin(wrap(second)(torch.tanh(wrap(first)(x)))).sum().backward()
        return x.grad

    return not torch.equal(gradient(False), gradient(True))
