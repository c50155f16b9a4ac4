"""A custom backward inside a checkpoint cannot read its saved tensors twice."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "A tensor that the rerun has made again is handed out once"


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


def differs(changed: bool) -> bool:
    """Whether backward is refused; with the change, it reads once."""
    x = torch.ones(3, requires_grad=True)
    reads = 1 if changed else 2
    y = checkpoint(lambda x: Sine.apply(x, reads), x, use_reentrant=False)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return "already unpacked once" in str(error)
    return False
