"""A default dtype that holds in forward alone is another one in the recomputation: NaN, or an error."""

import paddle
from paddle.distributed.fleet.utils import recompute


def function(x):
    return paddle.log(paddle.exp(x.astype(paddle.get_default_dtype())))


def gradient(**options):
    x = paddle.to_tensor([100.0], stop_gradient=False)
    paddle.set_default_dtype("float64")
    try:
        y = recompute(function, x, **options)
    finally:
        paddle.set_default_dtype("float32")
    y.sum().backward()
    return x.grad


# The derivative of log(exp(x)) is 1. In float32, exp(100) is infinite.
assert bool(paddle.isnan(gradient(use_reentrant=True)).all())
try:
    gradient(use_reentrant=False)
except ValueError as error:
    assert "The size of Holder is not enough" in str(error)
else:
    raise AssertionError("no error is raised")
