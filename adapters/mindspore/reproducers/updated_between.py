"""The rerun reads a parameter after its update, so the gradient is wrong."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, nn, ops


class Product(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(ops.ones(4))

    def construct(self, x):
        return ops.sin(x * self.w)


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Product()
_, backward = ms.vjp(lambda x: ms.recompute(block, x, use_reentrant=True), ops.ones(4))
block.w.set_data(ops.ones(4) * 2)
assert not np.allclose(backward(ops.ones(4))[0].asnumpy(), np.cos(1))
