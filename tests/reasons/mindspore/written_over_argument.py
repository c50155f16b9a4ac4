"""An argument that is written over after a region is there changed in the rerun."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

REASON = "An argument that is written over after the region has kept it"


class Block(nn.Cell):
    def construct(self, h):
        return ops.sin(h)


def differs(changed: bool) -> bool:
    """Whether the gradient is not 2 cos(1); with the change, a new tensor is made instead."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block = Block()

    def forward(x):
        h = x * x
        y = ms.recompute(block, h, use_reentrant=False)
        if changed:
            h = h + 1
        else:
            h.copy_(h + 1)
        return y

    return not np.allclose(ms.grad(forward)(ops.ones(4)).asnumpy(), 2 * np.cos(1))
