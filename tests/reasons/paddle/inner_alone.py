"""Backward through what a reentrant region inside a hooked one gave, and through nothing else."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The region around it makes the inner region's argument again, and hands it out detached"


def differs(changed: bool) -> bool:
    """Whether the inner region has nothing to derive; with the change, the outer one is plain."""

    def inner(x):
        return paddle.exp(paddle.sin(x))

    def outer(x):
        y = recompute(inner, paddle.sin(x), use_reentrant=True)
        return paddle.tanh(y), y

    x = paddle.ones([2])
    x.stop_gradient = False
    _, y = outer(x) if changed else recompute(outer, x, use_reentrant=False)
    try:
        (y * y).sum().backward()
    except OSError as error:
        return "none of output has requires_grad=True" in str(error)
    return False
