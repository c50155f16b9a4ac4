"""A parameter that a region captures has no gradient where no argument asks for one."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "No positional tensor of the region asks for a gradient"


def differs(changed: bool) -> bool:
    """Whether the parameter has no gradient; with the change, the argument asks for one."""
    w = paddle.ones([2])
    w.stop_gradient = False
    x = paddle.ones([2])
    x.stop_gradient = not changed
    # The sum with w lets backward run at all.
    (recompute(lambda x: x * w, x) + w).sum().backward()
    return not bool((w.grad == 2).all())
