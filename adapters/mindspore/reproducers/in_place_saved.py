"""A region that changes a saved tensor in place has a wrong gradient, without an error."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Block(nn.Cell):
    def construct(self, x):
        h = 2 * x
        return ops.sin(h) * ops.exp(h.copy_(h + 0.5))


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Block()


def forward(x):
    return ms.recompute(block, x, use_reentrant=False)


found = ms.grad(forward)(ops.ones(4)).asnumpy()
assert not np.allclose(found, 2 * (np.cos(2) + np.sin(2)) * np.exp(2.5))
