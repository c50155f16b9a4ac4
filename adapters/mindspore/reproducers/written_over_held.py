"""A tensor attribute that a recomputed cell changes in place is changed again in the rerun."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Block(nn.Cell):
    def __init__(self, held):
        super().__init__()
        self.held = held

    def construct(self, x):
        return ops.sin(self.held.copy_(self.held + x))


ms.set_context(mode=ms.PYNATIVE_MODE)


def forward(x):
    return ms.recompute(Block(x * x), x, use_reentrant=False)


assert not np.allclose(ms.grad(forward)(ops.ones(4)).asnumpy(), 3 * np.cos(2))
