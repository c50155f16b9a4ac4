"""`torch.func.grad` of a function under `keras.remat` raises."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch

try:
    torch.func.grad(keras.remat(torch.sin))(torch.tensor(2.0))
except RuntimeError as error:
    assert "don't yet support saved tensor hooks" in str(error)
else:
    raise AssertionError("no error is raised")
