"""A tensor that an inner region captures is kept until backward."""

import gc
import weakref

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
kept = []


def outer(x):
    c = x.exp()
    kept.append(weakref.ref(c))
    return checkpoint(lambda s: (s * c).sin(), c.sin(), use_reentrant=False)


y = checkpoint(outer, x, use_reentrant=False)
gc.collect()
assert y.requires_grad
assert kept[0]() is not None
