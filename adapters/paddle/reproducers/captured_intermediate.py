"""Backward raises if a function captures the tensor from which its argument is computed."""

import paddle
from paddle.distributed.fleet.utils import recompute


def gradient(nested):
    """The gradient of a region that captures c, from which its argument is computed."""
    x = paddle.ones([2])
    x.stop_gradient = False

    def outer(x):
        c = x * x
        return recompute(lambda s: s * c, paddle.sin(c))

    (recompute(outer, x) if nested else outer(x)).sum().backward()
    return x.grad


failed = []
for nested in (True, False):
    try:
        gradient(nested)
    except (OSError, SystemError) as error:
        failed.append("MultiplyGradNode do not exist" in str(error))
assert failed == [True, True]
