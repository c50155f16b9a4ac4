"""A gradient hook on a parameter that two nested regions use.

Case hooks/nested, variant torch/compiled-eager.
Source: torch's nested checkpoint tests, test_nested_checkpoint_same_graph
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
    def outer(x):
        h1 = x @ w
        s1 = torch.sin(h1)

        def inner(s1):
            h2 = s1 @ w
            s2 = torch.sin(h2)
            return torch.exp(s2)

        a = inner(s1)
        return torch.tanh(a)

    y = outer(x)
    return y * y


def recomputed(x, w):
    def outer(x):
        h1 = x @ w
        s1 = torch.sin(h1)

        def inner(s1):
            h2 = s1 @ w
            s2 = torch.sin(h2)
            return torch.exp(s2)

        a = checkpoint(inner, s1, use_reentrant=False)
        return torch.tanh(a)

    y = checkpoint(outer, x, use_reentrant=False)
    return y * y


def run(forward):
    values = inputs()
    fired = []
    values["w"].register_hook(lambda _: fired.append("w"))
    forward = torch.compile(forward, backend="eager")
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
