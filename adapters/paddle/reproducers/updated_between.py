"""The rerun reads a parameter after its update, so the gradient is wrong."""

import paddle
from paddle.distributed.fleet.utils import recompute


def is_wrong(use_reentrant):
    """Whether the gradient of an exponential is not the exponential."""
    x = paddle.ones([2])
    x.stop_gradient = False
    w = paddle.nn.Parameter(paddle.ones([2]))
    optimizer = paddle.optimizer.SGD(1.0, [w])
    y = recompute(lambda x: paddle.exp(x + w), x, use_reentrant=use_reentrant)
    (w * 2).sum().backward()
    optimizer.step()
    y.sum().backward()
    return abs(float(x.grad[0] - y[0])) > 0.001


assert [is_wrong(way) for way in (True, False)] == [True, True]
