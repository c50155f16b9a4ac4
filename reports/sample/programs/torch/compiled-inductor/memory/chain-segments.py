"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant torch/compiled-inductor.
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
    return {
        "x": x,
        **{f"w{i}": w for i, w in enumerate(ws, 1)},
        **{f"v{i}": v for i, v in enumerate(vs, 1)},
    }


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment(h, w, v):
        p = h @ w
        s = torch.sin(p)
        t = torch.sin(s)
        u = torch.sin(t)
        q = u @ v
        r = torch.sin(q)
        m = torch.sin(r)
        return torch.sin(m)

    h = segment(h, w1, v1)
    h = segment(h, w2, v2)
    h = segment(h, w3, v3)
    h = segment(h, w4, v4)
    return h.sum()


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment(h, w, v):
        p = h @ w
        s = torch.sin(p)
        t = torch.sin(s)
        u = torch.sin(t)
        q = u @ v
        r = torch.sin(q)
        m = torch.sin(r)
        return torch.sin(m)

    h = checkpoint(segment, h, w1, v1, use_reentrant=False)
    h = checkpoint(segment, h, w2, v2, use_reentrant=False)
    h = checkpoint(segment, h, w3, v3, use_reentrant=False)
    h = checkpoint(segment, h, w4, v4, use_reentrant=False)
    return h.sum()


def run(forward):
    values = inputs()
    forward = torch.compile(forward, backend="inductor")
    outputs = forward(**values)
    loss = outputs
    loss.backward()
    gradients = {
        "w1": values["w1"].grad,
        "w4": values["w4"].grad,
        "v4": values["v4"].grad,
    }
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
