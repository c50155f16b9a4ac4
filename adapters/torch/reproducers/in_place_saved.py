"""A region that changes a saved tensor in place has a wrong gradient, without an error."""

import torch
from torch.utils.checkpoint import checkpoint


def region(x):
    h = 2 * x
    return torch.sin(h) * torch.exp(h.add_(0.5))


x = torch.ones(3, requires_grad=True)
checkpoint(region, x, use_reentrant=False).sum().backward()
h = 2 * torch.ones(3)
right = 2 * (torch.cos(h) + torch.sin(h)) * torch.exp(h + 0.5)
assert not torch.allclose(x.grad, right)


def outer(x):
    h = 2 * x
    return torch.exp(checkpoint(lambda h: torch.square(h.add_(0.5)), h, use_reentrant=False))


x = torch.ones(3, requires_grad=True)
checkpoint(outer, x, use_reentrant=False).sum().backward()
right = 4 * 2.5 * torch.exp(torch.tensor(2.5**2)) * torch.ones(3)
assert not torch.allclose(x.grad, right)
