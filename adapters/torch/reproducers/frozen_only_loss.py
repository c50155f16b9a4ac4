"""With `use_reentrant=True`, backward raises if no argument requires a gradient."""

import torch
from torch.utils.checkpoint import checkpoint

w = torch.ones(3, requires_grad=True)
loss = checkpoint(lambda x: x * w, torch.ones(3), use_reentrant=True).sum()
try:
    loss.backward()
except RuntimeError as error:
    assert "does not require grad" in str(error)
else:
    raise AssertionError("no error is raised")
