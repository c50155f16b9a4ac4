"""Compiled with backend `eager`, backward raises if a region adds to a captured tensor in place."""

import torch
from torch.utils.checkpoint import checkpoint

x, total = torch.ones(3, requires_grad=True), torch.zeros(3)


def region(x):
    with torch.no_grad():
        total.add_(x)
    return torch.sin(x)


def run(x):
    return checkpoint(region, x, use_reentrant=False)


try:
    torch.compile(run, backend="eager")(x).sum().backward()
except RuntimeError as error:
    assert "modified by an inplace operation" in str(error)
else:
    raise AssertionError("no error is raised")
