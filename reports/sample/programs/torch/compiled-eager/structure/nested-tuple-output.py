"""A region that returns a tuple inside a tuple.

Case structure/nested-tuple-output, variant torch/compiled-eager.
Source: pytorch issue 124725; Paddle's recompute with nested outputs
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
        a = torch.sin(h)
        b = torch.tanh(h)
        c = torch.exp(a)
        return a, (b, c)

    a, (b, c) = block(x)
    ab = a * b
    z = ab * c
    return z, (b, c)


def recomputed(x, w):
    def block(x):
        h = x @ w
        a = torch.sin(h)
        b = torch.tanh(h)
        c = torch.exp(a)
        return a, (b, c)

    a, (b, c) = checkpoint(block, x, use_reentrant=False)
    ab = a * b
    z = ab * c
    return z, (b, c)


def run(forward):
    values = inputs()
    forward = torch.compile(forward, backend="eager")
    outputs = forward(**values)
    loss = outputs[0].sum()
    loss.backward()
    gradients = {"x": values["x"].grad, "w": values["w"].grad}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
