"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant torch/compiled-aot-eager.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(0.5 * rng.standard_normal((3, 4)), dtype=torch.float32)
    w1 = torch.tensor(
        0.5 * rng.standard_normal((4, 4)), dtype=torch.float32, requires_grad=True
    )
    w2 = torch.tensor(
        0.5 * rng.standard_normal((4, 2)), dtype=torch.float32, requires_grad=True
    )
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        h = x @ w1
        s = torch.sin(h)
        return torch.exp(s)

    a = block(x)
    y = a @ w2
    return y * y


def recomputed(x, w1, w2):
    def block(x):
        h = x @ w1
        s = torch.sin(h)
        return torch.exp(s)

    a = checkpoint(block, x, use_reentrant=False)
    y = a @ w2
    return y * y


def run(forward):
    values = inputs()
    forward = torch.compile(forward, backend="aot_eager")
    outputs = forward(**values)
    loss = outputs.sum()
    loss.backward()
    gradients = {"w1": values["w1"].grad, "w2": values["w2"].grad}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
