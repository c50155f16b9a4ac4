"""`torch.func.grad` raises for a checkpoint with `use_reentrant=False`."""

import torch
from torch.utils.checkpoint import checkpoint

try:
    torch.func.grad(lambda x: checkpoint(torch.sin, x, use_reentrant=False))(torch.tensor(1.0))
except RuntimeError as error:
    assert "saved tensor hooks" in str(error)
else:
    raise AssertionError("no error is raised")
