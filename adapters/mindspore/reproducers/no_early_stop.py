"""Up to MindSpore 2.8, a region runs again to its end, although backward reads nothing of the end."""

import mindspore as ms
from mindspore import nn, ops

ends = []


class Block(nn.Cell):
    def construct(self, x):
        h = ops.sin(x)
        ends.append(ops.neg(h))
        return ends[-1]


block = Block()


def loss(x):
    return ops.sum(ms.recompute(block, x, use_reentrant=False))


ms.set_context(mode=ms.PYNATIVE_MODE)
ms.grad(loss)(ops.ones((2, 3))).asnumpy()
assert len(ends) == 2
