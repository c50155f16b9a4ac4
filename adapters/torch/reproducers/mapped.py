"""Backward of a checkpoint inside `vmap` raises, because it recomputes after the map has ended."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)


def mapped(row):
    return checkpoint(torch.sin, row, use_reentrant=False) * row


y = torch.func.vmap(mapped)(x)
try:
    y.sum().backward()
except RuntimeError as error:
    assert "escaped from inside a function being vmapped" in str(error)
else:
    raise AssertionError("no error is raised")
