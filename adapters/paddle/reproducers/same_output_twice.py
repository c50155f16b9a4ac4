"""Backward raises if a region returns one tensor twice."""

import paddle
from paddle.distributed.fleet.utils import recompute


def region(x):
    y = paddle.exp(x)
    # A reshape to the same shape returns the same tensor.
    return y, y.reshape([2])


x = paddle.ones([2])
x.stop_gradient = False
first, second = recompute(region, x)
try:
    (first * second).sum().backward()
except OSError as error:
    assert "duplicate" in str(error)
else:
    raise AssertionError("no error is raised")
