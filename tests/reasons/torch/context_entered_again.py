"""A second rerun enters the context of the first one again."""

from contextlib import contextmanager, nullcontext

import torch
from torch.utils.checkpoint import checkpoint

REASON = "context_fn is called once, when the region is called"


@contextmanager
def once():
    yield


def differs(changed: bool) -> bool:
    """Whether a second backward raises; with the change, the contexts can be entered again."""
    context = nullcontext if changed else once

    def contexts():
        return context(), context()

    x = torch.ones(3, requires_grad=True)
    y = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False, context_fn=contexts)
    y.sum().backward(retain_graph=True)
    try:
        y.sum().backward()
    except AttributeError:
        return True
    return False
