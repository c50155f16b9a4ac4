"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant torch/wrapper.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
"""

import numpy as np
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
)


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(
        0.5 * rng.standard_normal((3, 4)), dtype=torch.float32, requires_grad=True
    )
    w = nn.Parameter(
        torch.tensor(0.5 * rng.standard_normal((4, 4)), dtype=torch.float32),
        requires_grad=False,
    )
    return {"x": x, "w": w}


class Block(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def forward(self, x):
        h = x @ self.w
        s = torch.sin(h)
        a = torch.exp(s)
        return a


def plain(x, w):
    block = Block(w)
    a = block(x)
    z = a * a
    return z


def recomputed(x, w):
    block = checkpoint_wrapper(Block(w))
    a = block(x)
    z = a * a
    return z


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs.sum()
    wanted = [values[name] for name in ("x",)]
    first = torch.autograd.grad(loss, wanted, create_graph=True)
    gradients = dict(zip(("x",), first))
    total = sum(gradient.sum() for gradient in first)
    second = torch.autograd.grad(total, wanted, create_graph=True)
    total = sum(gradient.sum() for gradient in second)
    second = torch.autograd.grad(total, wanted, allow_unused=True)
    again = dict(zip(("x",), second))
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": gradients,
        "again": again,
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
