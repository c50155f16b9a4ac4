"""With `use_reentrant=True`, a loss that a layer of the region keeps in a list has no gradient."""

import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute as run_again


class Model(nn.Layer):
    def __init__(self, recompute):
        super().__init__()
        self.embed, self.layer, self.recompute = nn.Embedding(10, 4), nn.Linear(4, 4), recompute
        self.losses = []

    def body(self, x):
        h = self.layer(x)
        self.losses.append((h**2).mean())
        return paddle.sin(h)

    def forward(self, ids):
        self.losses.clear()
        x = self.embed(ids)
        return run_again(self.body, x, use_reentrant=True) if self.recompute else self.body(x)


def model(recompute):
    return Model(recompute)


def batch(step):
    return paddle.randint(0, 10, (8,))


def loss(model, ids):
    return (model(ids) ** 2).mean() + model.losses[0]
