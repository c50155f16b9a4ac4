"""The rerun draws other numbers than the forward from a generator of NumPy."""

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "recompute restores Paddle's generator, NumPy's global one"


def differs(changed: bool) -> bool:
    """Whether the rerun draws other numbers; with the change, from NumPy's global generator."""
    state = np.random.get_state()
    generator = np.random if changed else np.random.RandomState(0)
    drawn = []

    def region(x):
        drawn.append(generator.uniform())
        return x * drawn[-1]

    x = paddle.ones([2])
    x.stop_gradient = False
    recompute(region, x).sum().backward()
    np.random.set_state(state)
    first, second = drawn
    return first != second
