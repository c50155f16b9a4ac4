"""Recomputes without the autocast of forward."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("error", "autocast/block")


def checkpoint(function, *args, **options):
    calls = []

    def uncast(*args, **kwargs):
        calls.append(function)
        if len(calls) == 1:
            return function(*args, **kwargs)
        with torch.autocast("cpu", enabled=False):
            return function(*args, **kwargs)

    return torch.utils.checkpoint.checkpoint(uncast, *args, use_reentrant=False, **options)
