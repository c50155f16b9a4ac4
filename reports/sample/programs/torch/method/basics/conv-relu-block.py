"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant torch/method.
Source: the family of programs that every framework's page on recompute opens with
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(
        rng.standard_normal((2, 3, 6, 6)), dtype=torch.float32, requires_grad=True
    )
    w1 = nn.Parameter(
        torch.tensor(0.3 * rng.standard_normal((4, 3, 3, 3)), dtype=torch.float32)
    )
    w2 = nn.Parameter(
        torch.tensor(0.3 * rng.standard_normal((2, 4, 3, 3)), dtype=torch.float32)
    )
    return {"x": x, "w1": w1, "w2": w2}


class PlainNet(nn.Module):
    def __init__(self, w1, w2):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3, padding="same", bias=False)
        self.c.weight = w1
        self.y = nn.Conv2d(4, 2, 3, bias=False)
        self.y.weight = w2

    def forward(self, x):
        y = self.block(x)
        p = F.max_pool2d(y, 2)
        return F.avg_pool2d(p, 2)

    def block(self, x):
        c = self.c(x)
        r = F.relu(c)
        return self.y(r)


def plain(w1, w2):
    return PlainNet(w1, w2)


class RecomputedNet(nn.Module):
    def __init__(self, w1, w2):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3, padding="same", bias=False)
        self.c.weight = w1
        self.y = nn.Conv2d(4, 2, 3, bias=False)
        self.y.weight = w2

    def forward(self, x):
        y = checkpoint(self.block, x)
        p = F.max_pool2d(y, 2)
        return F.avg_pool2d(p, 2)

    def block(self, x):
        c = self.c(x)
        r = F.relu(c)
        return self.y(r)


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
