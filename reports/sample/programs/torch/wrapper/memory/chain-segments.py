"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant torch/wrapper.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import numpy as np
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
)


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(0.5 * rng.standard_normal((2048, 64)), dtype=torch.float32)
    w1 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    w2 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    w3 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    w4 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    w5 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    w6 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    w7 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    w8 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    v1 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    v2 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    v3 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    v4 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    v5 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    v6 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    v7 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
    )
    v8 = nn.Parameter(
        torch.tensor(0.12 * rng.standard_normal((64, 64)), dtype=torch.float32)
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


class Segment1(nn.Module):
    def __init__(self, w1, v1):
        super().__init__()
        self.w1 = w1
        self.v1 = v1

    def forward(self, h):
        p1 = h @ self.w1
        s1 = torch.sin(p1)
        t1 = torch.sin(s1)
        u1 = torch.sin(t1)
        q1 = u1 @ self.v1
        r1 = torch.sin(q1)
        m1 = torch.sin(r1)
        h = torch.sin(m1)
        return h


class Segment2(nn.Module):
    def __init__(self, w2, v2):
        super().__init__()
        self.w2 = w2
        self.v2 = v2

    def forward(self, h):
        p2 = h @ self.w2
        s2 = torch.sin(p2)
        t2 = torch.sin(s2)
        u2 = torch.sin(t2)
        q2 = u2 @ self.v2
        r2 = torch.sin(q2)
        m2 = torch.sin(r2)
        h = torch.sin(m2)
        return h


class Segment3(nn.Module):
    def __init__(self, w3, v3):
        super().__init__()
        self.w3 = w3
        self.v3 = v3

    def forward(self, h):
        p3 = h @ self.w3
        s3 = torch.sin(p3)
        t3 = torch.sin(s3)
        u3 = torch.sin(t3)
        q3 = u3 @ self.v3
        r3 = torch.sin(q3)
        m3 = torch.sin(r3)
        h = torch.sin(m3)
        return h


class Segment4(nn.Module):
    def __init__(self, w4, v4):
        super().__init__()
        self.w4 = w4
        self.v4 = v4

    def forward(self, h):
        p4 = h @ self.w4
        s4 = torch.sin(p4)
        t4 = torch.sin(s4)
        u4 = torch.sin(t4)
        q4 = u4 @ self.v4
        r4 = torch.sin(q4)
        m4 = torch.sin(r4)
        h = torch.sin(m4)
        return h


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1
    segment1 = Segment1(w1, v1)
    h = segment1(h)
    segment2 = Segment2(w2, v2)
    h = segment2(h)
    segment3 = Segment3(w3, v3)
    h = segment3(h)
    segment4 = Segment4(w4, v4)
    h = segment4(h)
    z = h.sum()
    return z


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1
    segment1 = checkpoint_wrapper(Segment1(w1, v1))
    h = segment1(h)
    segment2 = checkpoint_wrapper(Segment2(w2, v2))
    h = segment2(h)
    segment3 = checkpoint_wrapper(Segment3(w3, v3))
    h = segment3(h)
    segment4 = checkpoint_wrapper(Segment4(w4, v4))
    h = segment4(h)
    z = h.sum()
    return z


def run(forward):
    values = inputs()
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
