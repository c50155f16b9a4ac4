"""A region that gives one tensor twice has no gradient."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The backward hands the region's outputs to paddle.autograd.backward"


def differs(changed: bool) -> bool:
    """Whether backward refuses the outputs; with the change, the second is a copy."""

    def region(x):
        y = paddle.exp(x)
        # A reshape to the same shape gives the tensor itself.
        return y, y.clone() if changed else y.reshape([2])

    x = paddle.ones([2])
    x.stop_gradient = False
    first, second = recompute(region, x)
    try:
        (first * second).sum().backward()
    except OSError as error:
        return "duplicate" in str(error)
    return False
