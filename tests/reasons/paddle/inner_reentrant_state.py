"""The random state of a reentrant region stays when it lies in one that is not."""

import weakref

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "A reentrant region keeps its copies of the generators' states"


def differs(changed: bool) -> bool:
    """Whether two copies of NumPy's state are kept; with the change, the outer one is reentrant."""
    x = paddle.full([3], 0.5)
    x.stop_gradient = False
    real, copies = np.random.get_state, []

    def spied():
        state = real()
        copies.append(weakref.ref(state[1]))
        return state

    def inner(x):
        return paddle.sin(x)

    def outer(x):
        return paddle.sin(recompute(inner, x, use_reentrant=True))

    np.random.get_state = spied
    try:
        y = recompute(outer, x, use_reentrant=changed)
        alive = sum(copy() is not None for copy in copies)
    finally:
        np.random.get_state = real
    return not y.stop_gradient and alive == 2
