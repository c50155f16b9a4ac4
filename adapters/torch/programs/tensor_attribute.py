"""A region that reads an attribute of its argument, with `use_reentrant=True`."""

import torch
from torch.utils.checkpoint import checkpoint


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return checkpoint(function, *args, use_reentrant=True)


def run(call):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    x.scale = 3.0
    call(lambda x: torch.sin(x) * getattr(x, "scale", 1.0), x).sum().backward()
    return x.grad
