"""A tensor that a region reads by closure and writes over is there changed in the rerun."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "A tensor that the region reads by closure"


def is_wrong(use_reentrant, changed):
    """Whether the gradient of an exponential is not the exponential."""
    c = paddle.ones([2])

    def region(x):
        y = paddle.exp(x + c)
        if not changed:
            c.add_(paddle.ones([2]))
        return y

    x = paddle.ones([2])
    x.stop_gradient = False
    y = recompute(region, x, use_reentrant=use_reentrant)
    y.sum().backward()
    return abs(float(x.grad[0] - y[0])) > 1e-3


def differs(changed: bool) -> bool:
    """Whether it is silently another one; with the change, nothing is written over."""
    return [is_wrong(way, changed) for way in (True, False)] == [True, True]
