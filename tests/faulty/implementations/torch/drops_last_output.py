"""Drops the gradient of the last of several outputs."""

import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "structure/two-outputs")


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    if isinstance(results, tuple):
        last = results[-1]
        if isinstance(last, torch.Tensor) and last.requires_grad:
            last.register_hook(torch.zeros_like)
    return results
