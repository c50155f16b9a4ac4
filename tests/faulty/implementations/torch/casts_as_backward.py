"""Recomputes under the autocast state of the backward call."""

import torch
import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("error", "autocast/backward-under")


def checkpoint(function, *args, **options):
    seen = []

    def note(gradient):  # before the rerun
        seen.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))

    def cast(*args, **kwargs):
        if not seen:
            return function(*args, **kwargs)
        enabled, dtype = seen[-1]
        with torch.autocast("cpu", enabled=enabled, dtype=dtype):
            return function(*args, **kwargs)

    results = torch.utils.checkpoint.checkpoint(cast, *args, use_reentrant=False, **options)
    for tensor in tree_leaves(results):
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            tensor.register_hook(note)
    return results
