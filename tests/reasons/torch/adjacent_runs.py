"""A region before one that detaches its argument runs again for nothing."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "The second region only detaches its argument"


def differs(changed: bool) -> bool:
    """Whether it runs again; with the change, it is detached before the region."""
    x = torch.ones(3, requires_grad=True)
    w = torch.ones(3, requires_grad=True)
    runs = []

    def first(x):
        runs.append(1)
        return x.sin()

    def second(a, w):
        return a.detach() * w

    a = checkpoint(first, x, use_reentrant=True)
    checkpoint(second, a.detach() if changed else a, w, use_reentrant=True).sum().backward()
    return len(runs) == 2
