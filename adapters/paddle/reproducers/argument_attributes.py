"""Under `to_static`, `recompute(None, x)` raises AttributeError instead of TypeError."""

import paddle
from paddle.distributed.fleet.utils import recompute


def forward(x):
    return recompute(None, x)


x = paddle.ones([2])
x.stop_gradient = False
try:
    paddle.jit.to_static(forward, full_graph=True)(x)
except (AttributeError, TypeError) as error:
    assert isinstance(error, AttributeError)
else:
    raise AssertionError("no error is raised")
