"""`paddle.grad` raises for a parameter that a region captures."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([2])
w = paddle.ones([2])
x.stop_gradient = w.stop_gradient = False
y = recompute(lambda x: x * w, x)
try:
    paddle.grad(y.sum(), [x, w])
except ValueError as error:
    assert "input does not appear in the backward graph" in str(error)
else:
    raise AssertionError("no error is raised")
