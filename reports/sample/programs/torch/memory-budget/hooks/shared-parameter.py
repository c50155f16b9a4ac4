"""A gradient hook on a parameter used inside a region and outside.

Case hooks/shared-parameter, variant torch/memory-budget.
Source: torch's autograd tests, test_checkpointing_without_reentrant_parameter_used_in_an_out
"""

import numpy as np
import torch
from torch._functorch import config as functorch_config


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
    h0 = x @ w

    def block(h0):
        h = h0 @ w
        s = torch.sin(h)
        a = torch.exp(s)
        return a

    a = block(h0)
    z = a * a
    return z


def recomputed(x, w):
    h0 = x @ w

    def block(h0):
        h = h0 @ w
        s = torch.sin(h)
        a = torch.exp(s)
        return a

    a = block(h0)
    z = a * a
    return z


def run(forward):
    values = inputs()
    fired = []
    values["w"].register_hook(lambda _: fired.append("w"))
    budget = 0.0 if forward is recomputed else 1.0
    functorch_config.activation_memory_budget = budget
    forward = torch.compile(forward, backend="aot_eager")
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


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
