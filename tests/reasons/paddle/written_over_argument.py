"""An argument that is written over is there changed in the rerun."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "An argument that is written over"


def differs(changed: bool) -> bool:
    """Whether the gradient is silently another one; with the change, nothing is written over."""
    found = []
    for use_reentrant in (True, False):
        x = paddle.ones([2])
        x.stop_gradient = False
        h = x * 1
        y = recompute(lambda h: paddle.exp(h * 1), h, use_reentrant=use_reentrant)
        h = h + 1 if changed else h.add_(paddle.ones([2]))
        y.sum().backward()
        found.append(abs(float(x.grad[0] - y[0])) > 1e-3)
    return found == [True, True]
