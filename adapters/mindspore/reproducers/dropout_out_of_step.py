"""In graph mode, a seeded dropout and its recomputed copy draw different masks after some steps."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

RUNS = 20
STEPS = 400


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


def _falls_out_of_step(recompute: bool) -> bool:
    ms.set_seed(0)
    step = ms.value_and_grad(Net(recompute), 0, None, has_aux=True)
    for _ in range(STEPS):
        (_, y), gradient = step(ops.zeros(128))
        if not np.array_equal(y.asnumpy() != 0, gradient.asnumpy() != 0):
            return True
    return False


def shows():
    ms.set_context(mode=ms.GRAPH_MODE)
    runs = RUNS
    try:
        return any(_falls_out_of_step(True) for _ in range(runs))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


assert shows()
