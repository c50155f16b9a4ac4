"""Backward raises if the loss uses only what a nested reentrant recompute returns."""

import paddle
from paddle.distributed.fleet.utils import recompute


def inner(x):
    return paddle.exp(paddle.sin(x))


def outer(x):
    y = recompute(inner, paddle.sin(x), use_reentrant=True)
    return paddle.tanh(y), y


x = paddle.ones([2])
x.stop_gradient = False
_, y = recompute(outer, x, use_reentrant=False)
try:
    (y * y).sum().backward()
except OSError as error:
    assert "none of output has requires_grad=True" in str(error)
else:
    raise AssertionError("no error is raised")
