"""What a PyLayer in a region has saved tells it that no gradient can reach it."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "What a rerun has saved is detached before it is handed out"
ASKS = True


class Sin(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return paddle.sin(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensor()
        return None if ASKS and x.stop_gradient else paddle.cos(x) * gradient


def differs(changed: bool) -> bool:
    """Whether recompute alone loses the gradient; with the change, the rule does not ask."""
    global ASKS
    ASKS = not changed

    def gradient(recomputed):
        x, w = paddle.ones([2, 2]), paddle.ones([2, 2])
        x.stop_gradient = False

        def region(x):
            return paddle.exp(Sin.apply(x @ w))

        y = recompute(region, x, use_reentrant=False) if recomputed else region(x)
        y.sum().backward()
        return x.grad

    assert float(abs(gradient(False)).sum()) > 0
    found = gradient(True)
    return found is None or float(abs(found).sum()) == 0
