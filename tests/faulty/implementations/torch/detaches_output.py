"""Detaches the first of several outputs."""

import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "structure/two-outputs")


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    if isinstance(results, tuple) and isinstance(results[0], torch.Tensor):
        return results[0].detach(), *results[1:]
    return results
