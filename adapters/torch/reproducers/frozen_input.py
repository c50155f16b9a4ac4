"""With `use_reentrant=True`, a captured parameter gets no gradient if no argument requires one."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=False)
w = torch.ones(3, requires_grad=True)
runs = []


def region(x):
    runs.append(1)
    return (x * w).sin()


(checkpoint(region, x, use_reentrant=True) + w.detach().requires_grad_()).sum().backward()
assert w.grad is None
assert len(runs) == 1
