"""With early stop, the gradient of an rrelu at the end of a region reads uninitialized memory."""

import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
x = torch.full((1000,), -1.0, requires_grad=True)
y = checkpoint(
    lambda x: torch.nn.functional.rrelu(x, training=True), x, use_reentrant=False, early_stop=True
)
# Overwrite freed memory, which may by chance still hold the slopes of the forward pass.
others = [torch.full((1000,), 7.0) for _ in range(100)]
del others
y.sum().backward()
assert not torch.equal(x.grad, -y)
