"""Keeps the random state of every region, even without `preserve_rng_state`."""

import torch
import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("retained memory", "randomness/dropout-not-preserved")


def checkpoint(function, *args, **options):
    state = torch.get_rng_state()
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    for tensor in tree_leaves(results):
        if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
            tensor.grad_fn.metadata["state"] = state
    return results
