"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant torch/reentrant.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(0.5 * rng.standard_normal((2048, 64)), dtype=torch.float32)
    ws = [
        torch.tensor(
            0.12 * rng.standard_normal((64, 64)),
            dtype=torch.float32,
            requires_grad=True,
        )
        for _ in range(8)
    ]
    vs = [
        torch.tensor(
            0.12 * rng.standard_normal((64, 64)),
            dtype=torch.float32,
            requires_grad=True,
        )
        for _ in range(8)
    ]
    return {"x": x, "ws": ws, "vs": vs}


def segment(h, w, v):
    p = h @ w
    s = torch.sin(p)
    t = torch.sin(s)
    u = torch.sin(t)
    q = u @ v
    r = torch.sin(q)
    m = torch.sin(r)
    return torch.sin(m)


def plain(x, ws, vs):
    h = x @ vs[0]
    for w, v in zip(ws[:4], vs[:4]):
        h = segment(h, w, v)
    return h.sum()


def recomputed(x, ws, vs):
    h = x @ vs[0]
    for w, v in zip(ws[:4], vs[:4]):
        h = checkpoint(segment, h, w, v, use_reentrant=True)
    return h.sum()


def run(forward):
    values = inputs()
    loss = forward(**values)
    loss.backward()
    gradients = {
        "w1": values["ws"][0].grad,
        "w4": values["ws"][3].grad,
        "v4": values["vs"][3].grad,
    }
    return {"outputs": loss, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
