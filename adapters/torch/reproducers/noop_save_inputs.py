"""A region inside `vmap` raises: `checkpoint` saves its arguments in a function without a rule."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
try:
    torch.func.vmap(lambda row: checkpoint(torch.sin, row, use_reentrant=False))(x)
except RuntimeError as error:
    assert "vmap over _NoopSaveInputs" in str(error)
else:
    raise AssertionError("no error is raised")
