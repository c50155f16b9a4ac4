"""Up to Paddle 3.0, `recompute` does not restore the random states of NumPy and of `random`."""

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute

drawn = []


def block(x):
    drawn.append(np.random.rand())
    return paddle.sin(x * drawn[-1])


x = paddle.ones([3])
x.stop_gradient = False
recompute(block, x, use_reentrant=True).sum().backward()
assert drawn[0] != drawn[1]
