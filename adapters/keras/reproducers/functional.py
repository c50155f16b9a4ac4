"""`torch.func.grad` of a function under `keras.remat` raises."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch


def refused(function) -> bool:
    try:
        torch.func.grad(function)(torch.tensor(2.0))
    except RuntimeError as error:
        return "don't yet support saved tensor hooks" in str(error)
    return False


def hooked(x):
    """No region, hooks that do nothing."""
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return torch.sin(x)


assert refused(keras.remat(torch.sin))
assert refused(hooked)
