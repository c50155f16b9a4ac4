"""With `use_reentrant=True`, a recomputed function cannot compute a gradient itself."""

from contextlib import nullcontext

import paddle
from paddle.distributed.fleet.utils import recompute


def shows():
    def region(x):
        with nullcontext():
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
        paddle.set_grad_enabled(True)
    return False


assert shows()
