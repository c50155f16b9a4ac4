"""Up to Paddle 3.0, a result of a reentrant region that nothing uses makes backward raise an error."""

import paddle
from paddle.distributed.fleet.utils import recompute


def block(x):
    h = x * 2
    return paddle.sin(h), h


x = paddle.ones([3])
x.stop_gradient = False
used, unused = recompute(block, x, use_reentrant=True)
try:
    used.sum().backward()
except OSError as error:
    assert "Unable to find next node in the GradTensorHolder" in str(error)
else:
    raise AssertionError("no error is raised")
