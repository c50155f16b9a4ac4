"""A transformer of Paddle's own encoder layers, with dropout; each layer is a region of `recompute`."""

import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute as run_again


class Transformer(nn.Layer):
    def __init__(self, recompute):
        super().__init__()
        self.recompute = recompute
        self.embed = nn.Embedding(1000, 64)
        self.blocks = nn.LayerList([nn.TransformerEncoderLayer(64, 4, 256) for _ in range(3)])
        self.head = nn.Linear(64, 1000)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = run_again(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(x)


def model(recompute):
    return Transformer(recompute)


def batch(step):
    return paddle.randint(0, 1000, (4, 64))


def loss(model, ids):
    return nn.functional.cross_entropy(model(ids[:, :-1]), ids[:, 1:])
