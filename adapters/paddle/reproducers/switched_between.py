"""The rerun reads a Python switch as it is during backward, so the gradient is wrong."""

import paddle
from paddle.distributed.fleet.utils import recompute


def is_wrong(use_reentrant):
    """Whether the gradient of an exponential is not the exponential."""
    switch = []

    def region(x):
        return paddle.exp(-x if switch else x)

    x = paddle.ones([2])
    x.stop_gradient = False
    y = recompute(region, x, use_reentrant=use_reentrant)
    switch.append("on")
    y.sum().backward()
    return abs(float(x.grad[0] - y[0])) > 0.001


assert [is_wrong(way) for way in (True, False)] == [True, True]
