"""Overwrites its first argument after forward."""

import torch.utils.checkpoint

CAUGHT_BY = ("value", "basics/mlp-block")


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    if args and isinstance(args[0], torch.Tensor):
        args[0].data.mul_(2)  # past autograd, which would notice
    return results
