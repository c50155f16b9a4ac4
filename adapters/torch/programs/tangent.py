"""Backward through a tangent raises an error: the recomputation does not save what the tangent needs."""

import torch
from torch.utils.checkpoint import checkpoint


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return checkpoint(function, *args, use_reentrant=False)


def run(call):
    weight, x = torch.ones(3, requires_grad=True), torch.arange(3.0)
    value, tangent = torch.func.jvp(
        lambda x: call(lambda x: torch.sin(x * weight), x), (x,), (torch.ones(3),)
    )
    (value + tangent).sum().backward()
    return weight.grad
