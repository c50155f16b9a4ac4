"""A vectorized Jacobian raises if a region draws random numbers, because it recomputes inside `vmap`."""

import torch
from torch.utils.checkpoint import checkpoint


def region(x):
    return torch.sin(torch.nn.functional.dropout(x, 0.5))


def of(x):
    return checkpoint(region, x, use_reentrant=False)


torch.autograd.functional.jacobian(region, torch.ones(3), vectorize=True)
torch.autograd.functional.jacobian(of, torch.ones(3))
try:
    torch.autograd.functional.jacobian(of, torch.ones(3), vectorize=True)
except RuntimeError as error:
    assert "random operations inside of vmap" in str(error)
else:
    raise AssertionError("no error is raised")
