"""A parameter that was frozen when `recompute()` was called and is trained later has gradient 0."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops


def model(recompute):
    block = nn.SequentialCell(nn.Dense(4, 4), nn.Tanh(), nn.Dense(4, 4))
    for parameter in block[0].get_parameters():
        parameter.requires_grad = False
    if recompute:
        block.recompute()
    for parameter in block[0].get_parameters():
        parameter.requires_grad = True
    return block


def batch(step):
    return ms.Tensor(np.random.randn(8, 4), ms.float32)


def loss(model, x):
    return ops.mean(model(x) ** 2)
