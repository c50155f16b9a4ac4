"""With `use_reentrant=False`, a function with a gradient of its own that saves a transposed tensor."""

import paddle
from paddle.distributed.fleet.utils import recompute


class Sin(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return paddle.sin(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensor()
        return gradient * paddle.cos(x)


def function(x):
    return Sin.apply(paddle.transpose(x, [1, 0]))


def plain(x):
    return function(x)


def recomputed(x):
    return recompute(function, x, use_reentrant=False)


def run(forward):
    x = paddle.arange(12, dtype="float32").reshape([3, 4])
    x.stop_gradient = False
    y = forward(x)
    y.sum().backward()
    return {"result": y, "gradient": x.grad}
