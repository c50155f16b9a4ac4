"""A gradient hook on a parameter that two nested regions use.

Case hooks/nested, variant torch/wrapper.
Source: torch's nested checkpoint tests, test_nested_checkpoint_same_graph
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
        torch.tensor(0.5 * rng.standard_normal((4, 4)), dtype=torch.float32)
    )
    return {"x": x, "w": w}


class Inner(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def forward(self, s1):
        h2 = s1 @ self.w
        s2 = torch.sin(h2)
        return torch.exp(s2)


class Outer(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w
        self.inner = Inner(w)

    def forward(self, x):
        h1 = x @ self.w
        s1 = torch.sin(h1)
        a = self.inner(s1)
        return torch.tanh(a)


def plain(x, w):
    outer = Outer(w)
    y = outer(x)
    return y * y


class RecomputedOuter(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w
        self.inner = checkpoint_wrapper(Inner(w))

    def forward(self, x):
        h1 = x @ self.w
        s1 = torch.sin(h1)
        a = self.inner(s1)
        return torch.tanh(a)


def recomputed(x, w):
    outer = checkpoint_wrapper(RecomputedOuter(w))
    y = outer(x)
    return y * y


def run(forward):
    values = inputs()
    fired = []
    values["w"].register_hook(lambda _: fired.append("w"))
    outputs = forward(**values)
    loss = outputs.sum()
    loss.backward()
    gradients = {"x": values["x"].grad, "w": values["w"].grad}
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": gradients,
        "state": {"hook of w": fired.count("w")},
    }


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
