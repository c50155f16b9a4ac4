"""A rerun reads a parameter as it is after an update."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The rerun reads the parameters as they are after"


def is_wrong(use_reentrant, changed):
    """Whether the gradient of an exponential is not the exponential."""
    x = paddle.ones([2])
    x.stop_gradient = False
    w = paddle.nn.Parameter(paddle.ones([2]))
    optimizer = paddle.optimizer.SGD(1.0, [w])
    y = recompute(lambda x: paddle.exp(x + w), x, use_reentrant=use_reentrant)
    (w * 2).sum().backward()
    if not changed:
        optimizer.step()
    y.sum().backward()
    return abs(float(x.grad[0] - y[0])) > 1e-3


def differs(changed: bool) -> bool:
    """Whether it is silently another one; with the change, there is no step between."""
    return [is_wrong(way, changed) for way in (True, False)] == [True, True]
