"""A region captures what its argument was computed from, and backward fails."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The rerun of the region goes back through what it captures"


def gradient(nested, changed):
    """The gradient of a region that captures c, from which its argument is computed."""
    x = paddle.ones([2])
    x.stop_gradient = False

    def outer(x):
        c = x * x
        if changed:
            return recompute(lambda s, c: s * c, paddle.sin(c), c)
        return recompute(lambda s: s * c, paddle.sin(c))

    (recompute(outer, x) if nested else outer(x)).sum().backward()
    return x.grad


def differs(changed: bool) -> bool:
    """Whether backward fails, with and without an outer region; with the change, c is an argument."""
    failed = []
    for nested in (True, False):
        try:
            gradient(nested, changed)
        except (OSError, SystemError) as error:
            failed.append("MultiplyGradNode do not exist" in str(error))
    return failed == [True, True]
