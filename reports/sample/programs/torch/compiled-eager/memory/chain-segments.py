"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant torch/compiled-eager.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(0.5 * rng.standard_normal((2048, 64)), dtype=torch.float32)
    w1 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    w2 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    w3 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    w4 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    w5 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    w6 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    w7 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    w8 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    v1 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    v2 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    v3 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    v4 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    v5 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    v6 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    v7 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    v8 = torch.tensor(
        0.12 * rng.standard_normal((64, 64)), dtype=torch.float32, requires_grad=True
    )
    return {
        "x": x,
        "w1": w1,
        "w2": w2,
        "w3": w3,
        "w4": w4,
        "w5": w5,
        "w6": w6,
        "w7": w7,
        "w8": w8,
        "v1": v1,
        "v2": v2,
        "v3": v3,
        "v4": v4,
        "v5": v5,
        "v6": v6,
        "v7": v7,
        "v8": v8,
    }


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment1(h):
        p1 = h @ w1
        s1 = torch.sin(p1)
        t1 = torch.sin(s1)
        u1 = torch.sin(t1)
        q1 = u1 @ v1
        r1 = torch.sin(q1)
        m1 = torch.sin(r1)
        h = torch.sin(m1)
        return h

    h = segment1(h)

    def segment2(h):
        p2 = h @ w2
        s2 = torch.sin(p2)
        t2 = torch.sin(s2)
        u2 = torch.sin(t2)
        q2 = u2 @ v2
        r2 = torch.sin(q2)
        m2 = torch.sin(r2)
        h = torch.sin(m2)
        return h

    h = segment2(h)

    def segment3(h):
        p3 = h @ w3
        s3 = torch.sin(p3)
        t3 = torch.sin(s3)
        u3 = torch.sin(t3)
        q3 = u3 @ v3
        r3 = torch.sin(q3)
        m3 = torch.sin(r3)
        h = torch.sin(m3)
        return h

    h = segment3(h)

    def segment4(h):
        p4 = h @ w4
        s4 = torch.sin(p4)
        t4 = torch.sin(s4)
        u4 = torch.sin(t4)
        q4 = u4 @ v4
        r4 = torch.sin(q4)
        m4 = torch.sin(r4)
        h = torch.sin(m4)
        return h

    h = segment4(h)
    z = h.sum()
    return z


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment1(h):
        p1 = h @ w1
        s1 = torch.sin(p1)
        t1 = torch.sin(s1)
        u1 = torch.sin(t1)
        q1 = u1 @ v1
        r1 = torch.sin(q1)
        m1 = torch.sin(r1)
        h = torch.sin(m1)
        return h

    h = checkpoint(segment1, h, use_reentrant=False)

    def segment2(h):
        p2 = h @ w2
        s2 = torch.sin(p2)
        t2 = torch.sin(s2)
        u2 = torch.sin(t2)
        q2 = u2 @ v2
        r2 = torch.sin(q2)
        m2 = torch.sin(r2)
        h = torch.sin(m2)
        return h

    h = checkpoint(segment2, h, use_reentrant=False)

    def segment3(h):
        p3 = h @ w3
        s3 = torch.sin(p3)
        t3 = torch.sin(s3)
        u3 = torch.sin(t3)
        q3 = u3 @ v3
        r3 = torch.sin(q3)
        m3 = torch.sin(r3)
        h = torch.sin(m3)
        return h

    h = checkpoint(segment3, h, use_reentrant=False)

    def segment4(h):
        p4 = h @ w4
        s4 = torch.sin(p4)
        t4 = torch.sin(s4)
        u4 = torch.sin(t4)
        q4 = u4 @ v4
        r4 = torch.sin(q4)
        m4 = torch.sin(r4)
        h = torch.sin(m4)
        return h

    h = checkpoint(segment4, h, use_reentrant=False)
    z = h.sum()
    return z


def run(forward):
    values = inputs()
    forward = torch.compile(forward, backend="eager")
    outputs = forward(**values)
    loss = outputs
    loss.backward()
    gradients = {
        "w1": values["w1"].grad,
        "w4": values["w4"].grad,
        "v4": values["v4"].grad,
    }
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
