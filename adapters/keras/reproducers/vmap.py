"""Backward of a function inside `torch.vmap` raises, because it recomputes after the map has ended."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch

x = torch.ones(3, 4, requires_grad=True)
y = torch.vmap(keras.remat(lambda x: torch.sin(x).exp()))(x)
try:
    y.sum().backward()
except RuntimeError as error:
    assert "escaped from inside a function being vmapped" in str(error)
else:
    raise AssertionError("no error is raised")
