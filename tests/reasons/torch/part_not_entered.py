"""backward(inputs=[...]) does not run a reentrant region again."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "The region's backward is not entered"


def differs(changed: bool) -> bool:
    """Whether it runs once only; with the change, inputs is not given."""
    x = torch.ones(3, requires_grad=True)
    w = torch.ones(3, requires_grad=True)
    runs = []

    def region(x):
        runs.append(1)
        return x * w

    y = checkpoint(region, x, use_reentrant=True)
    y.sum().backward(inputs=None if changed else [w])
    return len(runs) == 1
