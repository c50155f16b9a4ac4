"""With `use_reentrant=True`, a tensor that the cell holds as an attribute gets a gradient of zero."""

import mindspore as ms
from mindspore import nn, ops


class Product(nn.Cell):
    def construct(self, x):
        return x * self.held


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Product()


def forward(x, y):
    block.held = y * 2
    return ms.recompute(block, x, use_reentrant=True)


of_y = ms.grad(forward, 1)(ops.ones(4), ops.ones(4))
assert not of_y.asnumpy().any()
