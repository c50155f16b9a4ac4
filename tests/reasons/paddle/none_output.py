"""A region that gives None, a number or a dict beside a tensor has no gradient."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The backward asserts that the region gives as many outputs"


def fails(other):
    """Whether backward fails, without a message, for a region that gives something else as well."""
    x = paddle.ones([2])
    x.stop_gradient = False
    y, _ = recompute(lambda x: (x * 2, other(x)), x)
    try:
        y.sum().backward()
    except OSError as error:
        return "AssertionError: <EMPTY MESSAGE>" in str(error)
    return False


def differs(changed: bool) -> bool:
    """Whether it fails for None, a number and a dict; with the change, for a tensor."""
    if changed:
        return fails(lambda x: x * 3)
    others = (lambda x: None, lambda x: 3, lambda x: {"y": x * 3})
    return [fails(other) for other in others] == [True] * 3
