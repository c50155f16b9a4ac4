"""The recomputation draws other numbers from a NumPy generator than the forward pass."""

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute

generator = np.random.RandomState(0)
drawn = []


def region(x):
    drawn.append(generator.uniform())
    return x * drawn[-1]


x = paddle.ones([2])
x.stop_gradient = False
recompute(region, x).sum().backward()
first, second = drawn
assert first != second
