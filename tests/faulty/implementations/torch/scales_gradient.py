"""Scales the gradients of the outputs by 1.001."""

import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("gradient", "basics/mlp-block")


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    for tensor in tree_leaves(results):
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            tensor.register_hook(lambda gradient: gradient * (1 + 1e-3))
    return results
