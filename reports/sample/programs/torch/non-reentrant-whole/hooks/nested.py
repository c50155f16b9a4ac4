"""A gradient hook on a parameter that two nested regions use.

Case hooks/nested, variant torch/non-reentrant-whole.
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
            a = torch.exp(s2)
            return a

        a = inner(s1)
        y = torch.tanh(a)
        return y

    y = outer(x)
    z = y * y
    return z


def recomputed(x, w):
    def outer(x):
        h1 = x @ w
        s1 = torch.sin(h1)

        def inner(s1):
            h2 = s1 @ w
            s2 = torch.sin(h2)
            a = torch.exp(s2)
            return a

        a = checkpoint(inner, s1, use_reentrant=False, early_stop=False)
        y = torch.tanh(a)
        return y

    y = checkpoint(outer, x, use_reentrant=False, early_stop=False)
    z = y * y
    return z


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


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
