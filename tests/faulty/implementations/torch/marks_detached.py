"""Lets outputs that the region has detached require a gradient."""

import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("structure", "structure/detached-output-told")


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    for tensor in tree_leaves(results):
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
            tensor.requires_grad_()
    return results
