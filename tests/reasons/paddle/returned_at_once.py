"""A recomputed call that is returned at once does not find what its function captures."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "Where a function that SOT translates ends with `return recompute(function, x)`, and that"


@paddle.jit.to_static(full_graph=False)
def returned(x, w):
    def region(x):
        return x @ w

    return recompute(region, x)


@paddle.jit.to_static(full_graph=False)
def named(x, w):
    def region(x):
        return x @ w

    y = recompute(region, x)
    return y


def differs(changed: bool) -> bool:
    """Whether the region's product refuses what it captures; with the change, the result has a name."""
    x = paddle.ones([2, 2])
    x.stop_gradient = False
    try:
        (named if changed else returned)(x, paddle.ones([2, 2]))
    except TypeError as error:
        return "but got cell" in str(error)
    finally:
        paddle.set_grad_enabled(True)  # which the error has left off
    return False
