"""A second call of a recomputed cell, whose result is not used, makes the gradient wrong."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Model(nn.Cell):
    def __init__(self, recompute):
        super().__init__()
        self.block = nn.SequentialCell(nn.Dense(4, 4), nn.Tanh())
        if recompute:
            self.block.recompute()

    def construct(self, x):
        y = self.block(x)
        self.block(x + 1)  # to look at
        return y


def model(recompute):
    return Model(recompute)


def batch(step):
    return ms.Tensor(np.random.randn(8, 4), ms.float32)


def loss(model, x):
    return ops.mean(model(x) ** 2)
