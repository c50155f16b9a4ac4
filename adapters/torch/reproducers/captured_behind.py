"""With `use_reentrant=True`, backward raises if a region captures what its argument is made of."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
c = x.exp()
y = checkpoint(lambda s: s * c, c.sin(), use_reentrant=True)
try:
    y.sum().backward()
except RuntimeError as error:
    assert "through the graph a second time" in str(error)
else:
    raise AssertionError("no error is raised")
