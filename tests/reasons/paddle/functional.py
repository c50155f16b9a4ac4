"""vjp gives zeros for a parameter that a region captures."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The parameters that a region captures are no part"


def differs(changed: bool) -> bool:
    """Whether the gradient is zero; with the change, the parameter is an argument."""

    def loss(x, w):
        if changed:
            return recompute(lambda x, w: x * w, x, w).sum()
        return recompute(lambda x: x * w, x).sum()

    x = paddle.ones([2])
    w = paddle.ones([2])
    x.stop_gradient = w.stop_gradient = False
    _, (_, gradient) = paddle.incubate.autograd.vjp(loss, [x, w])
    return bool((gradient == 0).all())
