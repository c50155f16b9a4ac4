"""Zeros reach a tensor that no gradient should reach."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "For an argument that is only detached"


def differs(changed: bool) -> bool:
    """Whether x has a gradient of zeros; with the change, the second region is no PyLayer."""
    x = paddle.ones([2])
    w = paddle.ones([2])
    x.stop_gradient = w.stop_gradient = False
    a = recompute(lambda x: paddle.exp(x), x)
    recompute(lambda a: a.detach() * w, a, use_reentrant=not changed).sum().backward()
    return x.grad is not None and bool((x.grad == 0).all())
