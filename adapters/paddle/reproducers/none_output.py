"""Backward raises if a region also returns None, a number or a dict."""

import paddle
from paddle.distributed.fleet.utils import recompute


def fails(other):
    """Whether backward raises, without a message, if a region also returns something else."""
    x = paddle.ones([2])
    x.stop_gradient = False
    y, _ = recompute(lambda x: (x * 2, other(x)), x)
    try:
        y.sum().backward()
    except OSError as error:
        return "AssertionError: <EMPTY MESSAGE>" in str(error)
    return False


others = lambda x: None, lambda x: 3, lambda x: {"y": x * 3}
assert [fails(other) for other in others] == [True] * 3
