"""A recomputed convolution feeding a plain ReLU.

Case basics/conv-relu-gradient, variant torch/memory-budget.
Source: mindspore.recompute, API page, example
"""

import torch
import torch.nn.functional as F
from torch._functorch import config as functorch_config


def inputs():
    x = torch.full((2, 2, 2, 2), 2.0, requires_grad=True)
    w = torch.full((2, 2, 2, 2), 1.0, requires_grad=True)
    return {"x": x, "w": w}


def plain(x, w):
    def conv(x):
        y = F.conv2d(x, w, padding="same")
        return y

    y = conv(x)
    z = F.relu(y)
    return z


def recomputed(x, w):
    def conv(x):
        y = F.conv2d(x, w, padding="same")
        return y

    y = conv(x)
    z = F.relu(y)
    return z


def run(forward):
    values = inputs()
    budget = 0.0 if forward is recomputed else 1.0
    functorch_config.activation_memory_budget = budget
    forward = torch.compile(forward, backend="aot_eager")
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
