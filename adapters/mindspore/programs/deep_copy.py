"""A deep copy of a cell that `recompute()` was called on, such as an averaged model, raises an error."""

import copy

import mindspore as ms
import numpy as np
from mindspore import nn, ops


def model(recompute):
    block = nn.SequentialCell(nn.Dense(4, 4), nn.Tanh())
    if recompute:
        block.recompute()
    return copy.deepcopy(block)


def batch(step):
    return ms.Tensor(np.random.randn(8, 4), ms.float32)


def loss(model, x):
    return ops.mean(model(x) ** 2)
