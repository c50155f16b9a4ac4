"""Second-order gradients lack the part that passes through tensors that a PyLayer saves."""

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
    return Square.apply(x * 3)


x = paddle.ones([2])
x.stop_gradient = False
y = recompute(region, x, use_reentrant=False)
(first,) = paddle.grad((y * x).sum(), [x], create_graph=True)
(second,) = paddle.grad(first.sum(), [x])
# y * x is 9 x**3, whose second derivative is 54 x.
assert not bool((second == 54).all())
