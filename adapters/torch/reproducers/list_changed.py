"""The rerun sees the item that the forward run appended to a list argument."""

import torch
from torch.utils.checkpoint import checkpoint


def region(x, seen):
    seen.append(1)
    return (x * len(seen)).exp()


def wrong(use_reentrant):
    x = torch.ones(3, requires_grad=True)
    y = checkpoint(region, x, [], use_reentrant=use_reentrant)
    y.sum().backward()
    return not torch.equal(x.grad, y)


assert wrong(use_reentrant=True)
assert wrong(use_reentrant=False)
