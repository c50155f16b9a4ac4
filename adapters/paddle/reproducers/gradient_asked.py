"""In the rerun, a tensor that a PyLayer has saved has `stop_gradient=True`."""

import paddle
from paddle.distributed.fleet.utils import recompute

asks = []


class Sin(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return paddle.sin(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensor()
        asks.append(not x.stop_gradient)
        return paddle.cos(x) * gradient


def region(x):
    return paddle.exp(Sin.apply(x * w))


x, w = paddle.ones([2]), paddle.ones([2])
x.stop_gradient = False
region(x).sum().backward()
recompute(region, x, use_reentrant=False).sum().backward()
assert asks == [True, False]
