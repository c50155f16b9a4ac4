"""With mixed_float16 on the CPU, the rerun reads float32 weights, and the gradient is wrong."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch


def gradient(recomputed):
    keras.utils.set_random_seed(0)
    scoped = recomputed
    with keras.RematScope("full" if scoped else None):
        first = keras.layers.Dense(4, dtype="mixed_float16")
        second = keras.layers.Dense(4, dtype="mixed_float16")
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    wrap = keras.remat if False else lambda layer: layer
    for layer in (first, second):
        layer.build(x.shape)
    torch.sin(wrap(second)(torch.tanh(wrap(first)(x)))).sum().backward()
    return x.grad


assert not torch.equal(gradient(False), gradient(True))
