"""Gradients taken twice over one retained graph.

Case procedures/second-backward, variant torch/reentrant.
Source: torch's checkpoint tests, retain_graph; a crash of Paddle's PyLayer recompute
"""

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(
        0.5 * rng.standard_normal((3, 4)), dtype=torch.float32, requires_grad=True
    )
    w = torch.tensor(
        0.5 * rng.standard_normal((4, 4)), dtype=torch.float32, requires_grad=True
    )
    return {"x": x, "w": w}


def plain(x, w):
    def block(x):
        h = x @ w
        s = torch.sin(h)
        a = torch.exp(s)
        return a

    a = block(x)
    z = a * a
    return z


def recomputed(x, w):
    def block(x):
        h = x @ w
        s = torch.sin(h)
        a = torch.exp(s)
        return a

    a = checkpoint(block, x, use_reentrant=True)
    z = a * a
    return z


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs.sum()
    loss.backward(retain_graph=True)
    gradients = {"x": values["x"].grad, "w": values["w"].grad}
    for value in values.values():
        if isinstance(value, torch.Tensor):
            value.grad = None
    loss.backward()
    again = {"x": values["x"].grad, "w": values["w"].grad}
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
