"""A parameter's hook is called twice where it is used inside and outside a region."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The backward of a region runs a backward of its own"


def differs(changed: bool) -> bool:
    """Whether the hook is called twice, with a part each; with the change, use_reentrant=False."""
    x = paddle.ones([2])
    w = paddle.ones([2])
    x.stop_gradient = w.stop_gradient = False
    parts = []
    w.register_hook(lambda gradient: parts.append(float(gradient[0])))
    recompute(lambda h: h * w * 3, x * w, use_reentrant=not changed).sum().backward()
    assert float(w.grad[0]) == 6
    return parts == [3, 3]
