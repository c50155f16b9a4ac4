"""Recomputes, but also keeps the activations."""

import torch
import torch.utils.checkpoint
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("retained memory", "memory/chain-each")


class Keep(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.kept = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.kept.append(result)
        return result


def checkpoint(function, *args, **options):
    keep = Keep()

    def keeping(*args, **kwargs):
        if keep.kept:
            return function(*args, **kwargs)
        with keep:
            return function(*args, **kwargs)

    results = torch.utils.checkpoint.checkpoint(keeping, *args, use_reentrant=False, **options)
    for tensor in tree_leaves(results):
        if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
            tensor.grad_fn.metadata["kept"] = keep.kept
    return results
