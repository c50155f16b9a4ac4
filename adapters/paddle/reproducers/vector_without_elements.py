"""A product of tensors with one axis and no elements raises an error in backward."""

import paddle
from paddle.distributed.fleet.utils import recompute


def product(x):
    return x * x


def gradient(function, shape):
    x = paddle.zeros(shape)
    x.stop_gradient = False
    function(x).sum().backward()
    return x.grad.shape


def recomputed(x):
    return recompute(product, x, use_reentrant=False)


assert gradient(product, [0]) == [0]
assert gradient(recomputed, [0, 4]) == [0, 4]
try:
    gradient(recomputed, [0])
except RuntimeError as error:
    assert "holder_ should not be null" in str(error)
else:
    raise AssertionError("no error")
