"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant torch/non-reentrant-whole.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(
        rng.standard_normal((8, 16)), dtype=torch.float32, requires_grad=True
    )
    w1 = torch.tensor(
        0.3 * rng.standard_normal((16, 16)), dtype=torch.float32, requires_grad=True
    )
    w2 = torch.tensor(
        0.3 * rng.standard_normal((16, 4)), dtype=torch.float32, requires_grad=True
    )
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        h = x @ w1
        d = F.dropout(h, p=0.5)
        y = d @ w2
        return y, d

    y, d = block(x)
    z = y * y
    return z, d


def recomputed(x, w1, w2):
    def block(x):
        h = x @ w1
        d = F.dropout(h, p=0.5)
        y = d @ w2
        return y, d

    y, d = checkpoint(block, x, use_reentrant=False, early_stop=False)
    z = y * y
    return z, d


def run(forward):
    torch.manual_seed(0)
    values = inputs()
    outputs = forward(**values)
    loss = outputs[0].sum()
    loss.backward()
    gradients = {
        "x": values["x"].grad,
        "w1": values["w1"].grad,
        "w2": values["w2"].grad,
    }
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
