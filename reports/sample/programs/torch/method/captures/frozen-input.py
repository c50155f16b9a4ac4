"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant torch/method.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(0.5 * rng.standard_normal((3, 4)), dtype=torch.float32)
    w1 = nn.Parameter(
        torch.tensor(0.5 * rng.standard_normal((4, 4)), dtype=torch.float32)
    )
    w2 = nn.Parameter(
        torch.tensor(0.5 * rng.standard_normal((4, 2)), dtype=torch.float32)
    )
    return {"x": x, "w1": w1, "w2": w2}


class PlainNet(nn.Module):
    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = w1
        self.w2 = w2

    def forward(self, x):
        a = self.block(x)
        y = a @ self.w2
        return y * y

    def block(self, x):
        h = x @ self.w1
        s = torch.sin(h)
        return torch.exp(s)


def plain(w1, w2):
    return PlainNet(w1, w2)


class RecomputedNet(nn.Module):
    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = w1
        self.w2 = w2

    def forward(self, x):
        a = checkpoint(self.block, x)
        y = a @ self.w2
        return y * y

    def block(self, x):
        h = x @ self.w1
        s = torch.sin(h)
        return torch.exp(s)


def recomputed(w1, w2):
    return RecomputedNet(w1, w2)


def run(forward):
    values = inputs()
    network = forward(values["w1"], values["w2"])
    outputs = network(values["x"])
    loss = outputs.sum()
    loss.backward()
    gradients = {"w1": values["w1"].grad, "w2": values["w2"].grad}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
