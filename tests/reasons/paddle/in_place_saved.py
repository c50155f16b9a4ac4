"""A tensor that was saved and is then written over is handed out changed by the rerun's hooks."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "What a rerun has saved is handed out through hooks"


def region(x):
    h = 2 * x
    return paddle.sin(h) * paddle.exp(h.add_(paddle.full([], 0.5)))


def differs(changed: bool) -> bool:
    """Whether the gradient is silently another one; with the change, nothing goes through hooks."""
    x = paddle.ones([3])
    x.stop_gradient = False
    try:
        recompute(region, x, use_reentrant=changed).sum().backward()
    except OSError:  # autograd has noticed
        return False
    h = 2 * paddle.ones([3])
    right = 2 * (paddle.cos(h) + paddle.sin(h)) * paddle.exp(h + 0.5)
    return not bool(paddle.allclose(x.grad, right))
