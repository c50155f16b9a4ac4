"""In graph mode, an unseeded dropout and its recomputed copy draw different masks."""

import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Dropout(nn.Cell):
    def construct(self, x):
        d = ops.dropout(ops.exp(x), p=0.5)
        return d * d


class Net(nn.Cell):
    def __init__(self, recompute):
        super().__init__()
        self.block, self.recomputed = Dropout(), recompute

    def construct(self, x):
        h = x + 0.25
        y = ms.recompute(self.block, h) if self.recomputed else self.block(h)
        return ops.sum(y), y


def shows():
    sys.modules["mindspore.common.seed"]._GLOBAL_SEED = None
    ms.seed()
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        step = ms.value_and_grad(Net(True), 0, None, has_aux=True)
        (_, y), gradient = step(ops.zeros(64))
        return not np.array_equal(y.asnumpy() != 0, gradient.asnumpy() != 0)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


assert shows()
