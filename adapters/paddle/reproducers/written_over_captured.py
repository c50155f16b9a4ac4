"""A captured tensor that the function changes in place is changed again in the rerun."""

import paddle
from paddle.distributed.fleet.utils import recompute


def is_wrong(use_reentrant):
    """Whether the gradient of an exponential is not the exponential."""
    c = paddle.ones([2])

    def region(x):
        y = paddle.exp(x + c)
        c.add_(paddle.ones([2]))
        return y

    x = paddle.ones([2])
    x.stop_gradient = False
    y = recompute(region, x, use_reentrant=use_reentrant)
    y.sum().backward()
    return abs(float(x.grad[0] - y[0])) > 0.001


assert [is_wrong(way) for way in (True, False)] == [True, True]
