"""Compiled with backend `eager`, the recomputation draws new random numbers."""

import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
x = torch.ones(100, requires_grad=True)


def region(x):
    return torch.nn.functional.dropout(x.sin(), 0.5).exp()


@torch.compile(backend="eager")
def run(x):
    return checkpoint(region, x, use_reentrant=False)


y = run(x)
y.sum().backward()
assert not torch.equal(y == 1, x.grad == 0)
