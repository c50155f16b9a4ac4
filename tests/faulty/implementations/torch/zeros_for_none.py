"""Returns gradients of zeros for arguments that the region does not read."""

import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("gradient", "captures/parameter-unused")


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    if not isinstance(results, torch.Tensor):
        return results
    for tensor in tree_leaves(args):
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            results = results + (0 * tensor.sum()).to(results.dtype)
    return results
