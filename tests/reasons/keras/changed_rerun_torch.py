"""A rerun that computes something else is noticed by its shapes alone."""

import keras
import torch

ENVIRONMENT = {"KERAS_BACKEND": "torch"}
REASON = "Nothing compares the values"


def differs(changed: bool) -> bool:
    """Whether the gradient is another one; with the change, shapes differ too, and torch says so."""
    calls = []

    def region(x):
        calls.append(x)
        if len(calls) == 1:
            return x.sin().sum()
        return x[:2].exp().sum() if changed else x.exp().sum()

    x = torch.ones(4, requires_grad=True)
    try:
        keras.remat(region)(x).backward()
    except torch.utils.checkpoint.CheckpointError:
        return False
    return not torch.allclose(x.grad, torch.cos(x))
