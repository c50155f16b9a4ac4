"""A reentrant region without arguments is outside the graph."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = (
    "With use_reentrant=True the outputs ask for a gradient only if a tensor argument does, and"
)


def differs(changed: bool) -> bool:
    """Whether the output asks for no gradient; with the change, the region has an argument."""
    x = torch.ones(3, requires_grad=True)
    arguments = [torch.ones(1, requires_grad=True)] if changed else []
    return not checkpoint(lambda *_: x.sin(), *arguments, use_reentrant=True).requires_grad
