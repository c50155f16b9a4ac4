"""Backward runs a region without end if it returns a tensor that it captures."""

import paddle
from paddle.distributed.fleet.utils import recompute

x, w = paddle.ones([2]), paddle.ones([2])
x.stop_gradient = w.stop_gradient = False
runs = []


def region(x):
    runs.append(x)
    if len(runs) == 20:
        raise ValueError("the region has run 20 times")
    return x * 2, w


y, same = recompute(region, x)
try:
    (y + same).sum().backward()
except OSError as error:
    assert "the region has run 20 times" in str(error)
else:
    raise AssertionError("no error is raised")
