"""Passes bool tensors on as floating ones when the function runs again."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("error", "arguments/bool-mask")


def checkpoint(function, *args, **options):
    calls = []

    def run(*given, **named):
        calls.append(1)
        if len(calls) > 1:
            given = [a.float() if getattr(a, "dtype", None) is torch.bool else a for a in given]
        return function(*given, **named)

    return torch.utils.checkpoint.checkpoint(run, *args, use_reentrant=False, **options)
