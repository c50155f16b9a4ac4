"""With `use_reentrant=True`, forward runs without gradients, and a function can depend on that."""

import torch
from torch.utils.checkpoint import checkpoint


def block(x):
    with torch.set_grad_enabled(torch.is_grad_enabled()):
        h = x * 2
        return h.sin() if h.requires_grad else h.cos()


x = torch.ones(3, requires_grad=True)
assert not torch.equal(checkpoint(block, x, use_reentrant=True), block(x))
