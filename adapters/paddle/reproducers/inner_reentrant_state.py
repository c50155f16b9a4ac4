"""A reentrant recompute inside a non-reentrant one keeps its random state until backward."""

import weakref

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute

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
    y = recompute(outer, x, use_reentrant=False)
    alive = sum(copy() is not None for copy in copies)
finally:
    np.random.get_state = real
assert not y.stop_gradient
assert alive == 2
