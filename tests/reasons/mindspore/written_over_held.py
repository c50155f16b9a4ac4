"""A tensor that a recomputed cell holds and writes over is there changed in the rerun."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

REASON = "A tensor that the region's cell holds and writes over"


class Block(nn.Cell):
    def __init__(self, held, changed):
        super().__init__()
        self.held, self.changed = held, changed

    def construct(self, x):
        h = self.held
        g = h + x if self.changed else h.copy_(h + x)
        return ops.sin(g)


def differs(changed: bool) -> bool:
    """Whether the gradient is not 3 cos(2); with the change, a new tensor is made instead."""
    ms.set_context(mode=ms.PYNATIVE_MODE)

    def forward(x):
        return ms.recompute(Block(x * x, changed), x, use_reentrant=False)

    return not np.allclose(ms.grad(forward)(ops.ones(4)).asnumpy(), 3 * np.cos(2))
