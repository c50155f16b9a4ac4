"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant torch/wrapper.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import numpy as np
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
)


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


class Block(nn.Module):
    def __init__(self, w1):
        super().__init__()
        self.w1 = w1

    def forward(self, x):
        h = x @ self.w1
        s = torch.sin(h)
        return torch.exp(s)


def plain(x, w1, w2):
    block = Block(w1)
    a = block(x)
    y = a @ w2
    return y * y


def recomputed(x, w1, w2):
    block = checkpoint_wrapper(Block(w1))
    a = block(x)
    y = a @ w2
    return y * y


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs.sum()
    loss.backward()
    gradients = {"w1": values["w1"].grad, "w2": values["w2"].grad}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
