"""Recomputes, and leaks one tensor per call."""

import torch.utils.checkpoint

CAUGHT_BY = ("release", "release/dropout")
_left = []


def checkpoint(function, *args, **options):
    _left.append(torch.zeros(4))
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
