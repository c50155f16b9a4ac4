"""With `use_reentrant=True`, `backward(inputs=[w])` computes no gradient if a region captures w."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
w = torch.ones(3, requires_grad=True)
y = checkpoint(lambda x: x * w, x, use_reentrant=True)
y.sum().backward(inputs=[w])
assert w.grad is None
