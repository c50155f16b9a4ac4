"""In a recompute, a PyLayer whose backward reads its saved tensors twice raises."""

import paddle
from paddle.distributed.fleet.utils import recompute

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


def main():
    global READS
    READS = 2
    x = paddle.ones([2])
    x.stop_gradient = False
    Sin.apply(x).sum().backward()

    def region(x):
        # Something else that is saved: else the second read would run the region once
        # more.
        return paddle.exp(Sin.apply(paddle.exp(x)))

    try:
        recompute(region, x, use_reentrant=False).sum().backward()
    except OSError as error:
        assert "multiple times" in str(error)
    else:
        raise AssertionError("no error is raised")


main()
