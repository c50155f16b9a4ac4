"""With `use_reentrant=True`, the gradient of a gradient is zero if the output is summed."""

import mindspore as ms
from mindspore import nn, ops


class Block(nn.Cell):
    def construct(self, x):
        return ops.exp(x)


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Block()
gradient = ms.grad(lambda x: ms.recompute(block, x, use_reentrant=True).sum())
assert not ms.grad(lambda x: gradient(x).sum())(ops.ones(4)).asnumpy().any()
