"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant torch/wrapper.
Source: the family of programs that every framework's page on recompute opens with
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
        rng.standard_normal((2, 3, 6, 6)), dtype=torch.float32, requires_grad=True
    )
    w1 = nn.Parameter(
        torch.tensor(0.3 * rng.standard_normal((4, 3, 3, 3)), dtype=torch.float32)
    )
    w2 = nn.Parameter(
        torch.tensor(0.3 * rng.standard_normal((2, 4, 3, 3)), dtype=torch.float32)
    )
    return {"x": x, "w1": w1, "w2": w2}


class Block(nn.Module):
    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = w1
        self.w2 = w2

    def forward(self, x):
        c = F.conv2d(x, self.w1, padding="same")
        r = F.relu(c)
        return F.conv2d(r, self.w2)


def plain(x, w1, w2):
    block = Block(w1, w2)
    y = block(x)
    p = F.max_pool2d(y, 2)
    return F.avg_pool2d(p, 2)


def recomputed(x, w1, w2):
    block = checkpoint_wrapper(Block(w1, w2))
    y = block(x)
    p = F.max_pool2d(y, 2)
    return F.avg_pool2d(p, 2)


def run(forward):
    values = inputs()
    outputs = forward(**values)
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
