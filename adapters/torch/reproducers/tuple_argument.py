"""With `use_reentrant=True`, tensors passed in a tuple are outside of the graph."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
y = checkpoint(lambda pair: pair[0] * pair[1], (x, x), use_reentrant=True)
assert not y.requires_grad
