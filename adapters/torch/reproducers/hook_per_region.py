"""With `use_reentrant=True`, a hook of a tensor used inside and outside a region is called twice."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
calls = []
x.register_hook(lambda _: calls.append(1))
checkpoint(lambda h: h * x, 2 * x, use_reentrant=True).sum().backward()
assert len(calls) == 2
