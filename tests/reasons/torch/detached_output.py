"""A reentrant region's detached output asks for a gradient."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "With use_reentrant=True the region is one autograd.Function"


def differs(changed: bool) -> bool:
    """Whether it asks for one; with the change, no argument does."""
    x = torch.ones(3, requires_grad=not changed)
    _, detached = checkpoint(lambda x: (x.sin(), x.cos().detach()), x, use_reentrant=True)
    return detached.requires_grad
