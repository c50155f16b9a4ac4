"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant torch/method.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(
        rng.standard_normal((8, 16)), dtype=torch.float32, requires_grad=True
    )
    w1 = nn.Parameter(
        torch.tensor(0.3 * rng.standard_normal((16, 16)), dtype=torch.float32)
    )
    w2 = nn.Parameter(
        torch.tensor(0.3 * rng.standard_normal((16, 4)), dtype=torch.float32)
    )
    return {"x": x, "w1": w1, "w2": w2}


class PlainNet(nn.Module):
    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = w1
        self.w2 = w2

    def forward(self, x):
        y, d = self.block(x)
        z = y * y
        return z, d

    def block(self, x):
        h = x @ self.w1
        d = F.dropout(h, p=0.5)
        y = d @ self.w2
        return y, d


def plain(w1, w2):
    return PlainNet(w1, w2)


class RecomputedNet(nn.Module):
    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = w1
        self.w2 = w2

    def forward(self, x):
        y, d = checkpoint(self.block, x)
        z = y * y
        return z, d

    def block(self, x):
        h = x @ self.w1
        d = F.dropout(h, p=0.5)
        y = d @ self.w2
        return y, d


def recomputed(w1, w2):
    return RecomputedNet(w1, w2)


def run(forward):
    torch.manual_seed(0)
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
