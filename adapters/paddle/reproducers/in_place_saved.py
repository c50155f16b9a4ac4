"""A region that changes a saved tensor in place has a wrong gradient, without an error."""

import paddle
from paddle.distributed.fleet.utils import recompute


def region(x):
    h = 2 * x
    return paddle.sin(h) * paddle.exp(h.add_(paddle.full([], 0.5)))


x = paddle.ones([3])
x.stop_gradient = False
recompute(region, x, use_reentrant=False).sum().backward()
h = 2 * paddle.ones([3])
right = 2 * (paddle.cos(h) + paddle.sin(h)) * paddle.exp(h + 0.5)
assert not bool(paddle.allclose(x.grad, right))
