"""Gives the rerun numbers without their fractions."""

import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "arguments/number-first")


def checkpoint(function, *args, **options):
    calls = []

    def rounding(*args, **kwargs):
        calls.append(function)
        if len(calls) > 1:
            args = [int(a) if isinstance(a, float) else a for a in args]
        return function(*args, **kwargs)

    return torch.utils.checkpoint.checkpoint(rounding, *args, use_reentrant=False, **options)
