"""Recomputes, and keeps the outputs of a call until the next call."""

import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("release", "release/block")
_last = []


def checkpoint(function, *args, **options):
    given = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    _last[:] = [leaf.detach() for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
    return given
