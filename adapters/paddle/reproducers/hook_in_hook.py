"""Backward raises for two nested non-reentrant recomputes inside a reentrant one."""

import paddle
from paddle.distributed.fleet.utils import recompute


def innermost(x):
    return paddle.sin(x)


def inner(x):
    return paddle.sin(recompute(innermost, x, use_reentrant=False))


def outer(x):
    return paddle.sin(recompute(inner, x, use_reentrant=False))


w = paddle.full([3], 0.5)
w.stop_gradient = False
try:
    recompute(lambda x: outer(x) * w, w * 1, use_reentrant=True).sum().backward()
except (OSError, ValueError) as error:
    assert "only one pair of hooks is allowed" in str(error)
else:
    raise AssertionError("no error is raised")
