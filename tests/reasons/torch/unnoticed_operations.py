"""A checkpoint that stops early does not notice another operation."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "One operation more in the rerun is not noticed"


def differs(changed: bool) -> bool:
    """Whether it goes unnoticed; with the change, early_stop=False."""
    x = torch.ones(3, requires_grad=True)
    runs = []

    def region(x):
        runs.append(1)
        return x.sin().sin() if len(runs) == 1 else x.sin().sin().sin()

    y = checkpoint(region, x, use_reentrant=False, early_stop=not changed)
    try:
        y.sum().backward()
    except RuntimeError:
        return False
    return True
