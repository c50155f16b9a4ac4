"""Keeps eight extra bytes per region from forward to backward."""

import torch
import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("retained memory", "growth/each-layer[n=16]")


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    own = torch.zeros(2)
    for tensor in tree_leaves(results):
        if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
            tensor.grad_fn.metadata["own"] = own
    return results
