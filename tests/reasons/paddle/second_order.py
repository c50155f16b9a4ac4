"""The gradient of a gradient does not reach a region's argument."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = (
    "The backward of the PyLayer runs outside the graph that create_graph asks for, so the second"
)


def differs(changed: bool) -> bool:
    """Whether x has no second gradient; with the change, the region is no PyLayer."""
    x = paddle.ones([2])
    x.stop_gradient = False
    w = paddle.ones([2])
    w.stop_gradient = False
    y = recompute(lambda x: paddle.exp(x), x, use_reentrant=not changed)
    (first,) = paddle.grad((y * w).sum(), [x], create_graph=True)
    # Without w, which the first gradient does depend on, paddle.grad would refuse.
    second, _ = paddle.grad((first * w).sum(), [x, w], allow_unused=True)
    return second is None
