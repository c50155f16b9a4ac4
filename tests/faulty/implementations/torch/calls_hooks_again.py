"""Calls the hooks of captured tensors once more during the region's backward pass."""

import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("hooks", "hooks/parameter")


def checkpoint(function, *args, **options):
    captured = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    hooked = [t for t in captured if isinstance(t, torch.Tensor) and t.requires_grad]

    def call(gradient):
        for tensor in hooked:
            for hook in (tensor._backward_hooks or {}).values():
                hook(torch.zeros_like(tensor))

    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    for tensor in tree_leaves(results)[:1]:
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            tensor.register_hook(call)
    return results
