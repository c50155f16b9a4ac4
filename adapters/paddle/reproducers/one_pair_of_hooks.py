"""With `use_reentrant=False`, a region cannot compute a gradient itself."""

import paddle
from paddle.distributed.fleet.utils import recompute


def region(x):
    y = paddle.exp(x)
    (slope,) = paddle.grad(paddle.sin(y).sum(), y, create_graph=True)
    return paddle.sin(slope)


x = paddle.ones([2])
x.stop_gradient = False
region(x).sum().backward()
try:
    recompute(region, x, use_reentrant=False)
except OSError as error:
    assert "only one pair of hooks is allowed" in str(error)
else:
    raise AssertionError("no error is raised")
finally:
    paddle.set_grad_enabled(True)
