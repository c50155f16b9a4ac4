"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant paddle/layers.
Source: the family of programs that every framework's page on recompute opens with
"""

import numpy as np
import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute


def inputs():
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(
        rng.standard_normal((2, 3, 6, 6)), dtype="float32", stop_gradient=False
    )
    w1 = nn.Parameter(
        paddle.to_tensor(0.3 * rng.standard_normal((4, 3, 3, 3)), dtype="float32")
    )
    w2 = nn.Parameter(
        paddle.to_tensor(0.3 * rng.standard_normal((2, 4, 3, 3)), dtype="float32")
    )
    return {"x": x, "w1": w1, "w2": w2}


class Net(nn.Layer):
    def __init__(self, w1, w2):
        super().__init__()
        c = nn.Conv2D(3, 4, 3, padding="same", bias_attr=False)
        c.weight = w1
        r = nn.ReLU()
        y = nn.Conv2D(4, 2, 3, bias_attr=False)
        y.weight = w2
        self.block = nn.Sequential(c, r, y)
        self.p = nn.MaxPool2D(2)
        self.z = nn.AvgPool2D(2)

    def forward(self, x):
        y = self.block(x)
        p = self.p(y)
        return self.z(p)


def plain(w1, w2):
    return Net(w1, w2)


class RecomputedNet(Net):
    def forward(self, x):
        y = recompute(self.block, x)
        p = self.p(y)
        return self.z(p)


def recomputed(w1, w2):
    return RecomputedNet(w1, w2)


def run(forward):
    values = inputs()
    network = forward(values["w1"], values["w2"])
    outputs = network(values["x"])
    loss = outputs.sum()
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
