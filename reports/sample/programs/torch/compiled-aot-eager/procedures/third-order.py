"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant torch/compiled-aot-eager.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
"""

import numpy as np
import torch
from torch._functorch import config as functorch_config
from torch.utils.checkpoint import checkpoint


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(
        0.5 * rng.standard_normal((3, 4)), dtype=torch.float32, requires_grad=True
    )
    w = torch.tensor(0.5 * rng.standard_normal((4, 4)), dtype=torch.float32)
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

    a = checkpoint(block, x, use_reentrant=False)
    z = a * a
    return z


def run(forward):
    values = inputs()
    functorch_config.donated_buffer = False
    forward = torch.compile(forward, backend="aot_eager")
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
