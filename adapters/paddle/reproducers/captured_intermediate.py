"""Backward raises if a region captures the tensor from which its argument is computed."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([2])
x.stop_gradient = False
c = x * x
y = recompute(lambda s: s * c, paddle.sin(c))
try:
    y.sum().backward()
except (OSError, SystemError) as error:
    assert "MultiplyGradNode do not exist" in str(error)
else:
    raise AssertionError("no error is raised")
