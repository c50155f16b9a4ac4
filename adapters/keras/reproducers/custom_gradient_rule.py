"""Tensors that the rule of `keras.ops.custom_gradient` captures are kept despite recompute."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import weakref

import keras
import torch
from keras import ops

made = []


@ops.custom_gradient
def closing(x):
    cosine = torch.cos(x)
    made.append(weakref.ref(cosine))
    return torch.sin(x), lambda *_, upstream: upstream * cosine


made.clear()
x = torch.ones(4, requires_grad=True)
y = keras.remat(closing)(x)
kept = made[0]() is not None
y.sum().backward()
assert torch.allclose(x.grad, torch.cos(x))
assert kept
