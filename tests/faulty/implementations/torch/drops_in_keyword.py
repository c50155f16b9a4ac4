"""Gives tensors in a container that is passed by name no gradient."""

import torch
import torch.utils.checkpoint
from torch.utils._pytree import tree_map

CAUGHT_BY = ("gradient", "containers/tuple-by-name")


def detached(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


def checkpoint(function, *args, **options):
    options |= {k: tree_map(detached, v) for k, v in options.items() if isinstance(v, tuple | dict)}
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
