"""Under a seed, too, a dropout of a graph and its copy for backward come to draw two masks."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

REASON = "Under ms.set_seed too, a dropout of a graph and the copy of it for backward"
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


def differs(changed: bool) -> bool:
    """Whether a gradient has other zeros than its mask; with the change, nothing is recomputed. It does
    not happen in every run: of six, in four."""
    ms.set_context(mode=ms.GRAPH_MODE)
    runs = 3 if changed else RUNS
    try:
        return any(_falls_out_of_step(not changed) for _ in range(runs))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
