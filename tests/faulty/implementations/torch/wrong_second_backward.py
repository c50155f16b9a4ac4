"""Halves the gradient in a second backward pass."""

import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("gradient", "procedures/second-backward")


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    for tensor in tree_leaves(results):
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            tensor.register_hook(halved_when_called_again())
    return results


def halved_when_called_again():
    calls = []

    def hook(gradient):
        calls.append("backward")
        return gradient if len(calls) == 1 else gradient / 2

    return hook
