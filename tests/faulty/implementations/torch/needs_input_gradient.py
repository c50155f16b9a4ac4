"""Records nothing if no argument requires a gradient, even if captured tensors do."""

import torch
import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves

CAUGHT_BY = ("gradient", "captures/frozen-input")


def checkpoint(function, *args, **options):
    given = tree_leaves((args, options))
    asked = any(isinstance(t, torch.Tensor) and t.requires_grad for t in given)
    with torch.set_grad_enabled(asked and torch.is_grad_enabled()):
        return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
