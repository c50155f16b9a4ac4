"""A region cannot take a gradient while hooks on saved tensors are set."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "A gradient that is taken inside the region reads what has been saved there"


def differs(changed: bool) -> bool:
    """Whether forward raises, but not without recompute; with the change, the slope is written out."""

    def region(x):
        y = paddle.exp(x)
        if changed:
            return paddle.sin(paddle.cos(y))
        (slope,) = paddle.grad(paddle.sin(y).sum(), y, create_graph=True)
        return paddle.sin(slope)

    x = paddle.ones([2])
    x.stop_gradient = False
    region(x).sum().backward()
    try:
        recompute(region, x, use_reentrant=False)
    except OSError as error:
        return "only one pair of hooks is allowed" in str(error)
    finally:
        paddle.set_grad_enabled(True)  # which the error has left off
    return False
