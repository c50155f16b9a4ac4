"""With `use_reentrant=True`, a function without arguments is outside of the graph."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
assert not checkpoint(x.sin, use_reentrant=True).requires_grad
