"""A reentrant cell inside a non-reentrant one keeps its arguments until backward."""

import gc

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.common.recompute import _RecomputeCell


class Block(nn.Cell):
    def construct(self, x):
        return ops.exp(ops.sin(x))


class Outer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def construct(self, x):
        return ms.recompute(self.block, ops.sin(x), use_reentrant=True)


ms.set_context(mode=ms.PYNATIVE_MODE)
outer, kept = Outer(), []


def forward(x):
    y = ms.recompute(outer, x, use_reentrant=False, early_stop=False)
    gc.collect()
    cells = [cell for cell in gc.get_objects() if type(cell) is _RecomputeCell]
    kept.extend(float(args[0][0].asnumpy()) for cell in cells for args in cell.args)
    return y


ms.grad(forward)(Tensor(np.full(3, 0.5), ms.float32)).asnumpy()
assert np.isclose(np.sin(0.5), kept).any()
