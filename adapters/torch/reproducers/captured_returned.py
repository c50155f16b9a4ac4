"""With `use_reentrant=True`, a region that returns a captured tensor is recomputed without end."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
w = torch.ones(3, requires_grad=True)
runs = []


def region(x):
    runs.append(1)
    if len(runs) > 5:
        raise RuntimeError("again and again")
    return x.sin(), w


y, same = checkpoint(region, x, use_reentrant=True)
assert same is w
assert not w.is_leaf
try:
    y.sum().backward()
except RuntimeError as error:
    assert "again and again" in str(error)
else:
    raise AssertionError("no error is raised")

w = torch.ones(3, requires_grad=True)
checkpoint(lambda x: (x.sin(), w), torch.ones(3), use_reentrant=True)
assert not w.requires_grad
