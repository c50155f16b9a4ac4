"""Keeps recomputed tensors as long as the graph of an output."""

import torch
import torch.utils.checkpoint
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("release", "release/kept-outputs")


class Keep(TorchDispatchMode):
    def __init__(self, kept):
        super().__init__()
        self.kept = kept

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.kept.append(result)
        return result


def checkpoint(function, *args, **options):
    calls, kept = [], []

    def keeping(*args, **kwargs):
        calls.append(function)
        if len(calls) == 1:
            return function(*args, **kwargs)
        with Keep(kept):
            return function(*args, **kwargs)

    results = torch.utils.checkpoint.checkpoint(keeping, *args, use_reentrant=False, **options)
    for tensor in tree_leaves(results):
        if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
            tensor.grad_fn.metadata["kept"] = kept
    return results
