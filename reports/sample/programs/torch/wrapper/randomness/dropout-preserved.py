"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant torch/wrapper.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
)


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


class Block(nn.Module):
    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = w1
        self.w2 = w2

    def forward(self, x):
        h = x @ self.w1
        d = F.dropout(h, p=0.5)
        y = d @ self.w2
        return y, d


def plain(x, w1, w2):
    block = Block(w1, w2)
    y, d = block(x)
    z = y * y
    return z, d


def recomputed(x, w1, w2):
    block = checkpoint_wrapper(Block(w1, w2))
    y, d = block(x)
    z = y * y
    return z, d


def run(forward):
    torch.manual_seed(0)
    values = inputs()
    outputs = forward(**values)
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
