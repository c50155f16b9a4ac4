"""With `use_reentrant=True`, a function cannot compute a gradient itself."""

import torch
from torch.utils.checkpoint import checkpoint


def region(x):
    y = torch.exp(x)
    (slope,) = torch.autograd.grad(torch.sin(y).sum(), y, create_graph=True)
    return slope


x = torch.ones(3, requires_grad=True)
region(x).sum().backward()
try:
    checkpoint(region, x, use_reentrant=True).sum().backward()
except RuntimeError as error:
    assert "element 0 of tensors does not require grad" in str(error)
else:
    raise AssertionError("no error is raised")
