"""checkpoint does not compare the values that a rerun computes."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "checkpoint compares shapes, dtypes and devices"


def differs(changed: bool) -> bool:
    """Whether another rerun goes unnoticed; with the change, it has another shape."""
    x = torch.ones(3, requires_grad=True)
    runs = []

    def region(x):
        runs.append(1)
        factor = float(len(runs))
        return ((x.repeat(len(runs)) if changed else x) * factor).exp()

    y = checkpoint(region, x, use_reentrant=False)
    try:
        y.sum().backward()
    except RuntimeError:
        return False
    return not torch.equal(x.grad, y)
