"""A transformer of MindSpore cells in PyNative mode; `Cell.recompute` marks each block."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Block(nn.Cell):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm((width,)), nn.LayerNorm((width,))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.up = nn.Dense(width, 4 * width, activation="gelu")
        self.down = nn.Dense(4 * width, width)

    def construct(self, x):
        h = self.first(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.down(self.up(self.second(x)))


def model(recompute):
    blocks = [Block(64) for _ in range(3)]
    for block in blocks if recompute else ():
        block.recompute()
    return nn.SequentialCell(nn.Embedding(1000, 64), *blocks, nn.Dense(64, 1000))


def batch(step):
    return ms.Tensor(np.random.randint(0, 1000, (4, 64)), ms.int32)


def loss(model, ids):
    return ops.cross_entropy(model(ids[:, :-1]).reshape(-1, 1000), ids[:, 1:].reshape(-1))
