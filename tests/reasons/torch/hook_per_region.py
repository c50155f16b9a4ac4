"""A hook on a parameter is called for each backward pass inside another."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "With use_reentrant=True a region's backward is a backward pass of its own"


def differs(changed: bool) -> bool:
    """Whether it is called twice; with the change, use_reentrant=False."""
    x = torch.ones(3, requires_grad=True)
    calls = []
    x.register_hook(lambda _: calls.append(1))
    checkpoint(lambda h: h * x, 2 * x, use_reentrant=not changed).sum().backward()
    return len(calls) == 2
