"""Tensors that the function appends to a list outside of it have no gradient."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "left/auxiliary-loss")


def checkpoint(function, *args, **options):
    result = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    outside = getattr(function, "__globals__", {})
    for kept in [value for value in outside.values() if isinstance(value, list)]:
        kept[:] = [one.detach() if isinstance(one, torch.Tensor) else one for one in kept]
    return result
