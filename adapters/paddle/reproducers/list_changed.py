"""The rerun sees the item that the forward run appended to a list argument."""

import paddle
from paddle.distributed.fleet.utils import recompute


def is_wrong(use_reentrant):
    """Whether the gradient is of a longer list than the value."""

    def region(x, seen):
        seen.append(1)
        return paddle.exp(x * float(len(seen)))

    x = paddle.ones([2])
    x.stop_gradient = False
    y = recompute(region, x, [], use_reentrant=use_reentrant)
    y.sum().backward()
    return abs(float(x.grad[0] - y[0])) > 0.001


assert [is_wrong(way) for way in (True, False)] == [True, True]
