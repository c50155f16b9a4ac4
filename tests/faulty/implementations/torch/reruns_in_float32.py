"""Recomputes in float32 what autocast ran in another dtype, without a check."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "autocast/block")


def checkpoint(function, *args, preserve_rng_state=True, **options):
    calls = []

    def uncast(*args, **kwargs):
        calls.append(function)
        if len(calls) == 1:
            return function(*args, **kwargs)
        with torch.autocast("cpu", enabled=False):
            return function(*args, **kwargs)

    return torch.utils.checkpoint.checkpoint(
        uncast, *args, use_reentrant=True, preserve_rng_state=preserve_rng_state
    )
