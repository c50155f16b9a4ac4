"""Under `to_static`, `return recompute(f, x)` raises TypeError if `f` captures a tensor."""

import paddle
from paddle.distributed.fleet.utils import recompute


@paddle.jit.to_static(full_graph=False)
def returned(x, w):
    def region(x):
        return x @ w

    return recompute(region, x)


@paddle.jit.to_static(full_graph=False)
def named(x, w):
    def region(x):
        return x @ w

    return recompute(region, x)


def shows():
    x = paddle.ones([2, 2])
    x.stop_gradient = False
    try:
        returned(x, paddle.ones([2, 2]))
    except TypeError as error:
        return "but got cell" in str(error)
    finally:
        paddle.set_grad_enabled(True)
    return False


assert shows()
