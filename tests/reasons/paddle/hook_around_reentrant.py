"""A reentrant region inside one with hooks finds that its argument asks for no gradient."""

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "What a region with use_reentrant=False has saved is handed out as a copy"


def differs(changed: bool) -> bool:
    """Whether the rerun of the inner region is refused; with the change, the argument has a gradient
    already, and such a tensor is handed out itself."""

    def inner(x):
        return paddle.exp(paddle.sin(x))

    def outer(x):
        return paddle.sin(recompute(inner, x, use_reentrant=True))

    x = paddle.full([3], 0.5)
    x.stop_gradient = False
    if changed:
        x.sum().backward()
    y = recompute(outer, x, use_reentrant=False)
    try:
        y.sum().backward()
    except OSError as error:
        return "none of output has requires_grad=True" in str(error)
    e = np.exp(np.sin(0.5))
    assert np.allclose(x.grad, 1 + np.cos(e) * e * np.cos(0.5))
    return False
