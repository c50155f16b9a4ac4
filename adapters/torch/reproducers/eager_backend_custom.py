"""Compiled with backend `eager`, tensors that a custom autograd function saves are kept."""

import gc

import torch
from torch.utils.checkpoint import checkpoint

SIZE = 1237


class Sin(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.cos(x) * g


x = torch.ones(SIZE, requires_grad=True)


def region(x):
    h = torch.exp(x)
    return Sin.apply(h)


@torch.compile(backend="eager")
def run(x):
    return checkpoint(region, x, use_reentrant=False)


run(x).sum().backward()
y = run(x)
known = {id(x), id(x.grad), id(y)}
gc.collect()
inside = [t for t in gc.get_objects() if type(t) is torch.Tensor and id(t) not in known]
assert any(t.shape == (SIZE,) for t in inside)
