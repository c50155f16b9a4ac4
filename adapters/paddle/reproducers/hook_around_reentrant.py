"""Backward raises for a reentrant recompute inside a non-reentrant one."""

import paddle
from paddle.distributed.fleet.utils import recompute


def inner(x):
    return paddle.exp(paddle.sin(x))


def outer(x):
    return paddle.sin(recompute(inner, x, use_reentrant=True))


x = paddle.full([3], 0.5)
x.stop_gradient = False
y = recompute(outer, x, use_reentrant=False)
try:
    y.sum().backward()
except OSError as error:
    assert "none of output has requires_grad=True" in str(error)
else:
    raise AssertionError("no error is raised")
