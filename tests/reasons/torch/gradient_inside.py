"""A region that takes a gradient runs twice in forward, and keeps what the second run has made."""

import gc

import torch
from torch.utils.checkpoint import checkpoint

REASON = "A gradient that is taken inside the region reads what the region has saved"


def differs(changed: bool) -> bool:
    """Whether it runs twice and keeps the second run; with the change, the slope is written out."""
    runs = []

    def region(x):
        runs.append(1)
        y = torch.exp(x)
        if changed:
            return torch.sin(torch.cos(y))
        (slope,) = torch.autograd.grad(torch.sin(y).sum(), y, create_graph=True)
        return torch.sin(slope)

    def alive():
        gc.collect()
        return sum(type(o) is torch.Tensor and o.shape == (3, 7) for o in gc.get_objects())

    x = torch.ones(3, 7, requires_grad=True)
    before = alive()
    result = checkpoint(region, x, use_reentrant=False)
    return len(runs) == 2 and alive() - before > 1 and result.requires_grad
