"""Calls the hooks of results, and ignores what they return."""

import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("gradient", "hooks/on-result")


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    for tensor in tree_leaves(results):
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            register = tensor.register_hook
            tensor.register_hook = lambda hook, register=register: register(
                lambda gradient: hook(gradient) * 0 + gradient
            )
    return results
