"""With `use_reentrant=True`, a cell that returns an argument unchanged does not return numbers."""

import mindspore as ms
from mindspore import nn, ops


class Block(nn.Cell):
    def construct(self, x, y):
        return ops.sin(x), y, 0.5


ms.set_context(mode=ms.PYNATIVE_MODE)
block, returned = Block(), []


def forward(x, y):
    returned.append(ms.recompute(block, x, y, use_reentrant=True))
    return returned[-1][0]


ms.grad(forward)(ops.ones(4), ops.ones(4)).asnumpy()
assert len(block(ops.ones(4), ops.ones(4))) == 3
assert len(returned[0]) == 2
