"""In a checkpoint, a custom backward that reads its saved tensors twice raises."""

import torch
from torch.utils.checkpoint import checkpoint


class Sine(torch.autograd.Function):
    """A sine whose backward reads its saved tensors as often as it is told."""

    @staticmethod
    def forward(ctx, x, reads):
        ctx.save_for_backward(x)
        ctx.reads = reads
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        for _ in range(ctx.reads):
            (x,) = ctx.saved_tensors
        return g * x.cos(), None


x = torch.ones(3, requires_grad=True)
reads = 2
y = checkpoint(lambda x: Sine.apply(x, reads), x, use_reentrant=False)
try:
    y.sum().backward()
except RuntimeError as error:
    assert "already unpacked once" in str(error)
else:
    raise AssertionError("no error is raised")
