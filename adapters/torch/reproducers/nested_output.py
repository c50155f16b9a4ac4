"""With `use_reentrant=True`, a tensor returned inside a tuple contributes no gradient."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
(a,), b = checkpoint(lambda x: ((x.sin(),), x.cos()), x, use_reentrant=True)
(a + b).sum().backward()
right = x.cos() - x.sin()
assert not torch.equal(x.grad, right)
