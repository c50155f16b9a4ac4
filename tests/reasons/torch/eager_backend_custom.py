"""What a custom function has saved is kept, although it stands in a checkpointed region."""

import gc

import torch
from torch.utils.checkpoint import checkpoint

REASON = "For the backend eager a custom autograd.Function is a node of the graph"
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


def differs(changed: bool) -> bool:
    """Whether what the region makes is alive; with the change, its sine is PyTorch's own."""
    torch._dynamo.reset()
    x = torch.ones(SIZE, requires_grad=True)

    def region(x):
        h = torch.exp(x)
        return torch.sin(h) if changed else Sin.apply(h)

    @torch.compile(backend="eager")
    def run(x):
        return checkpoint(region, x, use_reentrant=False)

    run(x).sum().backward()
    y = run(x)
    known = {id(x), id(x.grad), id(y)}
    gc.collect()
    inside = [t for t in gc.get_objects() if type(t) is torch.Tensor and id(t) not in known]
    return any(t.shape == (SIZE,) for t in inside)
