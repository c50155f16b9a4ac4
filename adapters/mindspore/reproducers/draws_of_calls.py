"""In graph mode, calls of one recomputed cell draw different numbers under one operation seed."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


class Noise(nn.Cell):
    def construct(self, x):
        return x * ops.uniform((64,), Tensor(0.5, ms.float32), Tensor(1.5, ms.float32), seed=1)


class Calls(nn.Cell):
    def __init__(self, recompute):
        super().__init__()
        self.noise, self.recomputed = Noise(), recompute

    def construct(self, x):
        if self.recomputed:
            return tuple([ms.recompute(self.noise, x) for _ in range(3)])
        return tuple([self.noise(x) for _ in range(3)])


ms.set_context(mode=ms.GRAPH_MODE)
try:
    first, *others = (found.asnumpy() for found in Calls(True)(ops.ones(64)))
finally:
    ms.set_context(mode=ms.PYNATIVE_MODE)
assert not any(np.array_equal(first, other) for other in others)
