"""Hooks of cells: before forward, after it, and on gradients, which all change what they are given."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops


def model(recompute):
    block = nn.SequentialCell(nn.Dense(4, 4), nn.Dense(4, 4), nn.Tanh())
    block[0].register_forward_pre_hook(lambda cell, args: (2 * args[0],))
    block[1].register_forward_hook(lambda cell, args, result: result + 1)
    block[0].register_backward_pre_hook(lambda cell, gradient: (3 * gradient[0],))
    if recompute:
        block.recompute()
    return block


def batch(step):
    return ms.Tensor(np.random.randn(8, 4), ms.float32)


def loss(model, x):
    return ops.mean(model(x) ** 2)
