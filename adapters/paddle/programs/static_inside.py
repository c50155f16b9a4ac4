"""With `use_reentrant=True`, a layer compiled by `to_static` as the region raises an error."""

import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute as run_again


class Model(nn.Layer):
    def __init__(self, recompute):
        super().__init__()
        self.embed, self.recompute = nn.Embedding(10, 4), recompute
        self.layer = paddle.jit.to_static(nn.Linear(4, 4), full_graph=True)

    def forward(self, ids):
        x = self.embed(ids)
        return run_again(self.layer, x, use_reentrant=True) if self.recompute else self.layer(x)


def model(recompute):
    return Model(recompute)


def batch(step):
    return paddle.randint(0, 10, (8,))


def loss(model, ids):
    return (model(ids) ** 2).mean()
