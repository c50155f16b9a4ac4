"""With `use_reentrant=True`, a region that returns a tensor which it captures runs again without end."""

import torch
from torch.utils.checkpoint import checkpoint


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return checkpoint(function, *args, use_reentrant=True)


def run(call):
    weight, x, calls = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), []

    def block(x):
        calls.append(1)
        if len(calls) > 20:
            raise RecursionError("the region has run 20 times")
        return torch.sin(x * weight), weight

    y, same = call(block, x)
    (y * same).sum().backward()
    return weight.grad
