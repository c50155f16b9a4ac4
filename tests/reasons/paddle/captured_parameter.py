"""paddle.grad does not find a parameter that a region captures."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The region's PyLayer has the region's arguments for inputs"


def differs(changed: bool) -> bool:
    """Whether paddle.grad refuses the parameter; with the change, it is an argument."""
    x = paddle.ones([2])
    w = paddle.ones([2])
    x.stop_gradient = w.stop_gradient = False
    y = recompute(lambda x, w: x * w, x, w) if changed else recompute(lambda x: x * w, x)
    try:
        paddle.grad(y.sum(), [x, w])
    except ValueError as error:
        return "input does not appear in the backward graph" in str(error)
    return False
