"""In a region, a PyLayer whose backward reads its saved tensors twice raises."""

import paddle
from paddle.distributed.fleet.utils import recompute


class Sin(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return paddle.sin(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.saved_tensor()
        (x,) = ctx.saved_tensor()
        return gradient * paddle.cos(x)


def region(x):
    # The outer exponential saves another tensor. Without it, the second read would start another
    # recomputation.
    return paddle.exp(Sin.apply(paddle.exp(x)))


x = paddle.ones([2])
x.stop_gradient = False
region(x).sum().backward()
try:
    recompute(region, x, use_reentrant=False).sum().backward()
except OSError as error:
    assert "multiple times" in str(error)
else:
    raise AssertionError("no error is raised")
finally:
    paddle.set_grad_enabled(True)
