"""With `use_reentrant=True`, `backward(inputs=[w])` gives a captured parameter no gradient."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
w = torch.ones(3, requires_grad=True)
y = checkpoint(lambda x: x * w, x, use_reentrant=True)
y.sum().backward(inputs=[w])
assert w.grad is None
