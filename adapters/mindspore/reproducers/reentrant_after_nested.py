"""Backward raises if a reentrant region follows a non-reentrant one that contains a reentrant one."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


class Block(nn.Cell):
    def construct(self, x):
        return ops.exp(ops.sin(x))


class Outer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def construct(self, x):
        return ms.recompute(self.block, x, use_reentrant=True)


class Network(nn.Cell):
    def __init__(self, first):
        super().__init__()
        self.first, self.second = first, Block()

    def construct(self, x):
        h = ms.recompute(self.first, x, use_reentrant=False, early_stop=False)
        return ms.recompute(self.second, h, use_reentrant=True)


ms.set_context(mode=ms.PYNATIVE_MODE)
network = Network(Outer())
try:
    ms.grad(network)(Tensor(np.full(3, 0.5), ms.float32)).asnumpy()
except RuntimeError as error:
    assert "top_cell_] is null" in str(error)
else:
    raise AssertionError("no error is raised")
