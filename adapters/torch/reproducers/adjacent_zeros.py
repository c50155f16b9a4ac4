"""With `use_reentrant=True`, an input whose gradient is detached gets zeros instead of None."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
w = torch.ones(3, requires_grad=True)


def second(a, w):
    return a.detach() * w


a = checkpoint(torch.sin, x, use_reentrant=True)
checkpoint(second, a, w, use_reentrant=True).sum().backward()
assert x.grad is not None
assert not x.grad.any()
