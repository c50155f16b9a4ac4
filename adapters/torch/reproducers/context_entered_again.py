"""A second backward pass raises if the context of the recomputation can be entered only once."""

from contextlib import contextmanager

import torch
from torch.utils.checkpoint import checkpoint


@contextmanager
def once():
    yield


def contexts():
    return once(), once()


x = torch.ones(3, requires_grad=True)
y = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False, context_fn=contexts)
y.sum().backward(retain_graph=True)
raised = False
try:
    y.sum().backward()
except AttributeError:
    raised = True
assert raised
