"""In graph mode the calls of a cell draw the same numbers, and others where recompute calls it."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

REASON = "A cell that is called three times draws the same numbers at each call"


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


def differs(changed: bool) -> bool:
    """Whether the calls draw different numbers; with the change, the cell is called directly."""
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        first, *others = (found.asnumpy() for found in Calls(not changed)(ops.ones(64)))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    return not any(np.array_equal(first, other) for other in others)
