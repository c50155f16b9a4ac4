"""A reentrant region cannot take a gradient itself."""

from contextlib import nullcontext

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "With use_reentrant=True forward runs under no_grad, so that nothing is recorded"


def differs(changed: bool) -> bool:
    """Whether forward raises an error, but not without recompute; with the change, forward records."""

    def region(x):
        with paddle.enable_grad() if changed else nullcontext():
            y = paddle.exp(x)
            (slope,) = paddle.grad(paddle.sin(y).sum(), y, create_graph=True)
            return paddle.sin(slope)

    x = paddle.ones([2])
    x.stop_gradient = False
    region(x).sum().backward()
    try:
        recompute(region, x, use_reentrant=True)
    except SystemError as error:
        return "There is no grad op" in str(error)
    finally:
        paddle.set_grad_enabled(True)  # which the error has left off
    return False
