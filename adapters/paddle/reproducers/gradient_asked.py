"""In the rerun, a tensor that a PyLayer has saved has `stop_gradient=True`."""

import paddle
from paddle.distributed.fleet.utils import recompute

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


def main():
    global ASKS
    ASKS = True

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
    assert found is None or float(abs(found).sum()) == 0


main()
