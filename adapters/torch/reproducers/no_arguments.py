"""With `use_reentrant=True`, a function without arguments is outside of the graph."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
arguments = []
assert not checkpoint(lambda *_: x.sin(), *arguments, use_reentrant=True).requires_grad
