"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant paddle/layers.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import numpy as np
import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute


def inputs():
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(
        rng.standard_normal((8, 16)), dtype="float32", stop_gradient=False
    )
    w1 = nn.Parameter(
        paddle.to_tensor(0.3 * rng.standard_normal((16, 16)), dtype="float32")
    )
    w2 = nn.Parameter(
        paddle.to_tensor(0.3 * rng.standard_normal((16, 4)), dtype="float32")
    )
    return {"x": x, "w1": w1, "w2": w2}


class Block(nn.Layer):
    def __init__(self, w1, w2):
        super().__init__()
        self.h = nn.Linear(16, 16, bias_attr=False)
        self.h.weight = w1
        self.d = nn.Dropout(0.5)
        self.y = nn.Linear(16, 4, bias_attr=False)
        self.y.weight = w2

    def forward(self, x):
        h = self.h(x)
        d = self.d(h)
        y = self.y(d)
        return y, d


class Net(nn.Layer):
    def __init__(self, w1, w2):
        super().__init__()
        self.block = Block(w1, w2)

    def forward(self, x):
        y, d = self.block(x)
        z = y * y
        return z, d


def plain(w1, w2):
    return Net(w1, w2)


class RecomputedNet(Net):
    def forward(self, x):
        y, d = recompute(self.block, x)
        z = y * y
        return z, d


def recomputed(w1, w2):
    return RecomputedNet(w1, w2)


def run(forward):
    paddle.seed(0)
    values = inputs()
    network = forward(values["w1"], values["w2"])
    outputs = network(values["x"])
    loss = outputs[0].sum()
    loss.backward()
    gradients = {
        "x": values["x"].grad,
        "w1": values["w1"].grad,
        "w2": values["w2"].grad,
    }
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
