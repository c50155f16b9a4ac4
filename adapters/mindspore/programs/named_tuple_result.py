"""With `output_recompute=True`, a cell that returns a named tuple returns a plain tuple."""

from typing import NamedTuple

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Output(NamedTuple):
    hidden: ms.Tensor
    gate: ms.Tensor


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layer = nn.Dense(4, 4)

    def construct(self, x):
        return Output(ops.sin(self.layer(x)), ops.sigmoid(x))


def model(recompute):
    block = Block()
    if recompute:
        block.recompute(output_recompute=True)
    return block


def batch(step):
    return ms.Tensor(np.random.randn(8, 4), ms.float32)


def loss(model, x):
    out = model(x)
    return ops.mean(out.hidden * out.gate)
