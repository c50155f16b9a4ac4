"""A rerun finds what the forward has put into a list that the region was given."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The rerun is given the list itself, as the forward has left it"


def is_wrong(use_reentrant, changed):
    """Whether the gradient is of a longer list than the value."""

    def region(x, seen):
        if changed:
            seen = list(seen)
        seen.append(1)
        return paddle.exp(x * float(len(seen)))

    x = paddle.ones([2])
    x.stop_gradient = False
    y = recompute(region, x, [], use_reentrant=use_reentrant)
    y.sum().backward()
    return abs(float(x.grad[0] - y[0])) > 1e-3


def differs(changed: bool) -> bool:
    """Whether it is, in both ways; with the change, the list is copied at each call."""
    return [is_wrong(way, changed) for way in (True, False)] == [True, True]
