"""In PyNative mode, the rerun of a dropout draws other numbers than the forward run."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Dropout(nn.Cell):
    def __init__(self):
        super().__init__()
        self.drawn = []

    def construct(self, x):
        self.drawn.append(ops.dropout(ops.ones(64), 0.5).asnumpy())
        return ops.sin(x)


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Dropout()
ms.grad(lambda x: ms.recompute(block, x, use_reentrant=True))(ops.ones(4)).asnumpy()
first, second = block.drawn
assert not np.array_equal(first, second)
