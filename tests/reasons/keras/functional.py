"""torch.func.grad refuses a region."""

import keras
import torch

ENVIRONMENT = {"KERAS_BACKEND": "torch"}
REASON = "torch.func's transforms refuse saved tensor hooks"


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


def differs(changed: bool) -> bool:
    """Whether a region is refused, as hooks alone are; with the change, there are no hooks."""
    return refused(torch.sin) if changed else refused(keras.remat(torch.sin)) and refused(hooked)
