"""A recomputed convolution feeding a plain ReLU.

Case basics/conv-relu-gradient, variant torch/wrapper.
Source: mindspore.recompute, API page, example
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
)


def inputs():
    x = torch.full((2, 2, 2, 2), 2.0, requires_grad=True)
    w = nn.Parameter(torch.full((2, 2, 2, 2), 1.0))
    return {"x": x, "w": w}


class Conv(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def forward(self, x):
        y = F.conv2d(x, self.w, padding="same")
        return y


def plain(x, w):
    conv = Conv(w)
    y = conv(x)
    z = F.relu(y)
    return z


def recomputed(x, w):
    conv = checkpoint_wrapper(Conv(w))
    y = conv(x)
    z = F.relu(y)
    return z


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs.sum()
    loss.backward()
    gradients = {"x": values["x"].grad, "w": values["w"].grad}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
