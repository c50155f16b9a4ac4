"""With `use_reentrant=True`, tensors returned in a dict are outside of the graph."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
y = checkpoint(lambda x: {"y": x.sin()}, x, use_reentrant=True)["y"]
assert not y.requires_grad
