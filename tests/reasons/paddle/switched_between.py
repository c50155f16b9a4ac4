"""A rerun reads a switch as it is when backward runs."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The rerun calls the function anew, and what the function reads from outside"


def is_wrong(use_reentrant, changed):
    """Whether the gradient of an exponential is not the exponential."""
    switch = []

    def region(x):
        return paddle.exp(-x if switch else x)

    x = paddle.ones([2])
    x.stop_gradient = False
    y = recompute(region, x, use_reentrant=use_reentrant)
    if not changed:
        switch.append("on")
    y.sum().backward()
    return abs(float(x.grad[0] - y[0])) > 1e-3


def differs(changed: bool) -> bool:
    """Whether it is silently another one; with the change, the switch stays off."""
    return [is_wrong(way, changed) for way in (True, False)] == [True, True]
