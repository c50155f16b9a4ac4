"""A PyLayer in a region gets a transposed tensor back with the elements in another order."""

import paddle
from paddle.distributed.fleet.utils import recompute


class Square(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensor()
        return 2 * x * gradient


def region(x):
    return Square.apply(paddle.transpose(x, [1, 0]))


x = paddle.arange(6, dtype="float32").reshape([2, 3])
x.stop_gradient = False
recompute(region, x, use_reentrant=False).sum().backward()
assert x.grad.tolist() == [[0.0, 4.0, 8.0], [2.0, 6.0, 10.0]]  # 2 * x is [[0, 2, 4], [6, 8, 10]]
