"""checkpoint keeps an inner function, and with it what that has captured."""

import gc
import weakref

import torch
from torch.utils.checkpoint import checkpoint

REASON = "The function of the inner region has the captured tensor"


def differs(changed: bool) -> bool:
    """Whether the tensor is alive; with the change, it is an argument."""
    x = torch.ones(3, requires_grad=True)
    kept = []

    def outer(x):
        c = x.exp()
        kept.append(weakref.ref(c))
        if changed:
            return checkpoint(lambda s, c: (s * c).sin(), c.sin(), c, use_reentrant=False)
        return checkpoint(lambda s: (s * c).sin(), c.sin(), use_reentrant=False)

    y = checkpoint(outer, x, use_reentrant=False)
    gc.collect()
    return y.requires_grad and kept[0]() is not None
