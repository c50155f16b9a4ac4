"""Inside `vmap`, backward of a checkpoint raises, because the rerun comes after the map."""

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
