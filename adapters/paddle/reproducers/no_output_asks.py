"""Backward raises if a region detaches its result."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([2])
x.stop_gradient = False
y = recompute(lambda x: (x * 2).detach(), x)
try:
    (x * y).sum().backward()
except OSError as error:
    assert "none of output has requires_grad=True" in str(error)
else:
    raise AssertionError("no error is raised")
