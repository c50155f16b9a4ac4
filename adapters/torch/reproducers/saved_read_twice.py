"""In a region, a custom backward that reads its saved tensors twice raises."""

import torch
from torch.utils.checkpoint import checkpoint


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        for _ in range(2):
            (x,) = ctx.saved_tensors
        return g * x.cos()


x = torch.ones(3, requires_grad=True)
y = checkpoint(Sine.apply, x, use_reentrant=False)
try:
    y.sum().backward()
except RuntimeError as error:
    assert "already unpacked once" in str(error)
else:
    raise AssertionError("no error is raised")
