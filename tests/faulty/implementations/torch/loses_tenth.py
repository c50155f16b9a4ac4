"""Gives the arguments after the ninth no gradient."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "arguments/twelve")


def checkpoint(function, *args, **options):
    args = [a.detach() if n > 8 and isinstance(a, torch.Tensor) else a for n, a in enumerate(args)]
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
