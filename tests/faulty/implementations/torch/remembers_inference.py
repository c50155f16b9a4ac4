"""Disables gradients for a region that has once run without them."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("error", "procedures/after-inference")
_without = set()


def checkpoint(function, *args, **options):
    place = (function.__code__.co_filename, function.__code__.co_firstlineno)
    if not torch.is_grad_enabled():
        _without.add(place)
    with torch.set_grad_enabled(torch.is_grad_enabled() and place not in _without):
        return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
