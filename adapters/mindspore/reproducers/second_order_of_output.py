"""With `use_reentrant=True`, the gradient of a gradient is zero if the output is summed."""

import mindspore as ms
from mindspore import nn, ops


class Block(nn.Cell):
    def construct(self, x):
        return ops.exp(x)


ms.set_context(mode=ms.PYNATIVE_MODE)
block, options = Block(), {"use_reentrant": True}
gradient = ms.grad(lambda x: ms.recompute(block, x, **options).sum())
assert not ms.grad(lambda x: gradient(x).sum())(ops.ones(4)).asnumpy().any()
