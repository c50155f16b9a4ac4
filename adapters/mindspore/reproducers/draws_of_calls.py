"""In graph mode, calls of one recomputed cell draw different numbers under one operation seed."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


class Noise(nn.Cell):
    def construct(self, x):
        return x * ops.uniform((64,), Tensor(0.5, ms.float32), Tensor(1.5, ms.float32), seed=1)


class Calls(nn.Cell):
    def __init__(self):
        super().__init__()
        self.noise = Noise()

    def construct(self, x):
        return tuple([ms.recompute(self.noise, x) for _ in range(3)])


ms.set_context(mode=ms.GRAPH_MODE)
first, *others = (found.asnumpy() for found in Calls()(ops.ones(64)))
assert not any(np.array_equal(first, other) for other in others)
