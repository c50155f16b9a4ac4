"""A region's detached and integer outputs ask for a gradient."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "With use_reentrant=True the region is one PyLayer"


def differs(changed: bool) -> bool:
    """Whether they do; with the change, use_reentrant=False."""
    x = paddle.ones([2])
    x.stop_gradient = False

    def region(x):
        y = x * 2
        return y, y.detach(), paddle.argmax(y), y > 0

    outputs = recompute(region, x, use_reentrant=not changed)
    return [y.stop_gradient for y in outputs] == [False] * 4
