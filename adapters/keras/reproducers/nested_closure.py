"""What an inner recomputed function captures is kept until backward."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import weakref

import keras
import torch

made = []


def outer(x):
    y = torch.sin(x)
    made.append(weakref.ref(y))

    def inner(x):
        return torch.exp(x * y)

    return keras.remat(inner)(x)


x = torch.ones(4, requires_grad=True)
z = keras.remat(outer)(x)
kept = made[0]() is not None
z.sum().backward()
assert kept
