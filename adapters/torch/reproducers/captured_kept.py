"""With `use_reentrant=True`, outputs keep the tensors that a region captures, even after backward."""

import gc
import weakref

import torch
from torch.utils.checkpoint import checkpoint


def run(use_reentrant):
    x, c = torch.ones(3, requires_grad=True), torch.ones(3)
    y = checkpoint(lambda x: (x * c).sin(), x, use_reentrant=use_reentrant)
    y.sum().backward()
    return y, weakref.ref(c)


y, captured = run(use_reentrant=True)
gc.collect()
assert captured() is not None

y, captured = run(use_reentrant=False)
gc.collect()
assert captured() is None
