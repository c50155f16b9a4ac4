"""Compiling the gradient of a recomputed cell that loops on a tensor's value crashes the process."""

import mindspore as ms
from mindspore import nn, ops


class Doubled(nn.Cell):
    def construct(self, x):
        while x.sum() < 20:
            x = x * 2
        return ops.exp(x)


class Net(nn.Cell):
    def __init__(self, changed):
        super().__init__()
        self.block = Doubled()
        self.changed = changed

    def construct(self, x):
        return self.block(x) if self.changed else ms.recompute(self.block, x)


ms.set_context(mode=ms.GRAPH_MODE)
ms.grad(Net(False))(ops.ones((2, 4)))
