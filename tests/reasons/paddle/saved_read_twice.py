"""A PyLayer in a region cannot read what it saved a second time."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "recompute hands out what a rerun has saved once"
READS = 2


class Sin(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return paddle.sin(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.saved_tensor()
        if READS == 2:
            ctx.saved_tensor()
        return gradient


def differs(changed: bool) -> bool:
    """Whether backward fails, but not without recompute; with the change, it reads once."""
    global READS
    READS = 1 if changed else 2
    x = paddle.ones([2])
    x.stop_gradient = False
    Sin.apply(x).sum().backward()

    def region(x):
        # Something else that is saved: else the second read would run the region once more.
        return paddle.exp(Sin.apply(paddle.exp(x)))

    try:
        recompute(region, x, use_reentrant=False).sum().backward()
    except OSError as error:
        return "multiple times" in str(error)
    return False
