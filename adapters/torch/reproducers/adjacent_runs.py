"""With `use_reentrant=True`, a function is recomputed although the next one detaches its argument."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
w = torch.ones(3, requires_grad=True)
runs = []


def first(x):
    runs.append(1)
    return x.sin()


def second(a, w):
    return a.detach() * w


a = checkpoint(first, x, use_reentrant=True)
checkpoint(second, a, w, use_reentrant=True).sum().backward()
assert len(runs) == 2
