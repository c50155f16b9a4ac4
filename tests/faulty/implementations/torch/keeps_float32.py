"""Keeps arguments in float32 and recomputes from them."""

import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "basics/precision[dtype=float64]")


def rounded(value):
    if isinstance(value, torch.Tensor) and value.dtype is torch.float64:
        return value.float().double()
    return value


def checkpoint(function, *args, **options):
    calls = []

    def narrow(*args, **kwargs):
        calls.append(function)
        if len(calls) > 1:
            args = [rounded(value) for value in args]
        return function(*args, **kwargs)

    return torch.utils.checkpoint.checkpoint(narrow, *args, use_reentrant=False, **options)
