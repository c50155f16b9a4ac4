"""A gradient that was to be differentiated again does not depend on the argument."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = (
    "The backward of the PyLayer runs outside the graph that create_graph asks for, so the first"
)


def differs(changed: bool) -> bool:
    """Whether the second gradient is refused; with the change, the region is no PyLayer."""
    x = paddle.ones([2])
    x.stop_gradient = False
    y = recompute(lambda x: x**3, x, use_reentrant=not changed)
    (first,) = paddle.grad(y.sum(), [x], create_graph=True)
    try:
        paddle.grad(first.sum(), [x], create_graph=True)
    except ValueError as error:
        return "input does not appear in the backward graph" in str(error)
    return False
