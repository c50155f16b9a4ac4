"""What a PyLayer has saved in a region has no history."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "What a PyLayer has saved is handed out"


class Square(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensor()
        return 2 * x * gradient


def differs(changed: bool) -> bool:
    """Whether the second gradient lacks the way through x; with the change, without recompute."""
    x = paddle.ones([2])
    x.stop_gradient = False
    y = Square.apply(x * 3) if changed else recompute(region, x, use_reentrant=False)
    (first,) = paddle.grad((y * x).sum(), [x], create_graph=True)
    (second,) = paddle.grad(first.sum(), [x])
    # y * x is 9 x**3, whose second derivative is 54 x.
    return not bool((second == 54).all())


def region(x):
    return Square.apply(x * 3)
