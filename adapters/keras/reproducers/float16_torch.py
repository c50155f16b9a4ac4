"""With mixed_float16 on the CPU, the rerun reads float32 weights, and the gradient is wrong."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch


def gradient(mode):
    keras.utils.set_random_seed(0)
    with keras.RematScope(mode):
        layers = [keras.layers.Dense(4, dtype="mixed_float16") for _ in range(2)]
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    for layer in layers:
        layer.build(x.shape)
    torch.sin(layers[1](torch.tanh(layers[0](x)))).sum().backward()
    return x.grad


assert not torch.equal(gradient(None), gradient("full"))
