"""A default dtype that is set in forward alone: the recomputation makes its constants in another one."""

import torch
from torch.utils.checkpoint import checkpoint


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return checkpoint(function, *args, use_reentrant=False)


def run(call):
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    torch.set_default_dtype(torch.float64)
    y = call(lambda x: torch.sin(x * torch.full((3,), 0.1)), x)
    torch.set_default_dtype(torch.float32)
    y.sum().backward()
    return x.grad
