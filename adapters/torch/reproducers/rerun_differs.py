"""A layer switched to `eval()` before backward has a wrong gradient, without an error."""

import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
layer = torch.nn.Dropout(0.5)
x = torch.ones(100, requires_grad=True)
y = checkpoint(lambda x: layer(x.exp()), x, use_reentrant=True)
layer.eval()
y.sum().backward()
# The gradient of exp(x) under dropout is the output itself.
assert not torch.equal(x.grad, y)
