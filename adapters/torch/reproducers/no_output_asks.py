"""With `use_reentrant=True`, backward raises if an argument requires a gradient and no output does."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
w = torch.ones(3, requires_grad=True)
y = checkpoint(lambda x: x.detach(), x, use_reentrant=True)
try:
    (y * w).sum().backward()
except RuntimeError as error:
    assert "none of output has requires_grad=True" in str(error)
else:
    raise AssertionError
