"""A reentrant region whose only argument is frozen is outside the graph."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = (
    "With use_reentrant=True the outputs ask for a gradient only if a tensor argument does. The"
)


def differs(changed: bool) -> bool:
    """Whether the weight gets no gradient; with the change, the argument asks for one."""
    x = torch.ones(3, requires_grad=changed)
    w = torch.ones(3, requires_grad=True)
    runs = []

    def region(x):
        runs.append(1)
        return (x * w).sin()

    (checkpoint(region, x, use_reentrant=True) + w.detach().requires_grad_()).sum().backward()
    return w.grad is None and len(runs) == 1
