"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant paddle/layers.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import numpy as np
import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute


def inputs():
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(0.5 * rng.standard_normal((2048, 64)), dtype="float32")
    w1 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    w2 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    w3 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    w4 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    w5 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    w6 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    w7 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    w8 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    v1 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    v2 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    v3 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    v4 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    v5 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    v6 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    v7 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    )
    v8 = paddle.nn.Parameter(
        paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
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


class Segment1(nn.Layer):
    def __init__(self, w1, v1):
        super().__init__()
        self.p1 = nn.Linear(64, 64, bias_attr=False)
        self.p1.weight = w1
        self.q1 = nn.Linear(64, 64, bias_attr=False)
        self.q1.weight = v1

    def forward(self, h):
        p1 = self.p1(h)
        s1 = paddle.sin(p1)
        t1 = paddle.sin(s1)
        u1 = paddle.sin(t1)
        q1 = self.q1(u1)
        r1 = paddle.sin(q1)
        m1 = paddle.sin(r1)
        h = paddle.sin(m1)
        return h


class Segment2(nn.Layer):
    def __init__(self, w2, v2):
        super().__init__()
        self.p2 = nn.Linear(64, 64, bias_attr=False)
        self.p2.weight = w2
        self.q2 = nn.Linear(64, 64, bias_attr=False)
        self.q2.weight = v2

    def forward(self, h):
        p2 = self.p2(h)
        s2 = paddle.sin(p2)
        t2 = paddle.sin(s2)
        u2 = paddle.sin(t2)
        q2 = self.q2(u2)
        r2 = paddle.sin(q2)
        m2 = paddle.sin(r2)
        h = paddle.sin(m2)
        return h


class Segment3(nn.Layer):
    def __init__(self, w3, v3):
        super().__init__()
        self.p3 = nn.Linear(64, 64, bias_attr=False)
        self.p3.weight = w3
        self.q3 = nn.Linear(64, 64, bias_attr=False)
        self.q3.weight = v3

    def forward(self, h):
        p3 = self.p3(h)
        s3 = paddle.sin(p3)
        t3 = paddle.sin(s3)
        u3 = paddle.sin(t3)
        q3 = self.q3(u3)
        r3 = paddle.sin(q3)
        m3 = paddle.sin(r3)
        h = paddle.sin(m3)
        return h


class Segment4(nn.Layer):
    def __init__(self, w4, v4):
        super().__init__()
        self.p4 = nn.Linear(64, 64, bias_attr=False)
        self.p4.weight = w4
        self.q4 = nn.Linear(64, 64, bias_attr=False)
        self.q4.weight = v4

    def forward(self, h):
        p4 = self.p4(h)
        s4 = paddle.sin(p4)
        t4 = paddle.sin(s4)
        u4 = paddle.sin(t4)
        q4 = self.q4(u4)
        r4 = paddle.sin(q4)
        m4 = paddle.sin(r4)
        h = paddle.sin(m4)
        return h


class PlainNet(nn.Layer):
    def __init__(self, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
        super().__init__()
        self.h = nn.Linear(64, 64, bias_attr=False)
        self.h.weight = v1
        self.segment1 = Segment1(w1, v1)
        self.segment2 = Segment2(w2, v2)
        self.segment3 = Segment3(w3, v3)
        self.segment4 = Segment4(w4, v4)

    def forward(self, x):
        h = self.h(x)
        h = self.segment1(h)
        h = self.segment2(h)
        h = self.segment3(h)
        h = self.segment4(h)
        z = h.sum()
        return z


def plain(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    return PlainNet(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8)


class RecomputedNet(nn.Layer):
    def __init__(self, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
        super().__init__()
        self.h = nn.Linear(64, 64, bias_attr=False)
        self.h.weight = v1
        self.segment1 = Segment1(w1, v1)
        self.segment2 = Segment2(w2, v2)
        self.segment3 = Segment3(w3, v3)
        self.segment4 = Segment4(w4, v4)

    def forward(self, x):
        h = self.h(x)
        h = recompute(self.segment1, h)
        h = recompute(self.segment2, h)
        h = recompute(self.segment3, h)
        h = recompute(self.segment4, h)
        z = h.sum()
        return z


def recomputed(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    return RecomputedNet(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8)


def run(forward):
    values = inputs()
    network = forward(
        values["w1"],
        values["w2"],
        values["w3"],
        values["w4"],
        values["w5"],
        values["w6"],
        values["w7"],
        values["w8"],
        values["v1"],
        values["v2"],
        values["v3"],
        values["v4"],
        values["v5"],
        values["v6"],
        values["v7"],
        values["v8"],
    )
    outputs = network(values["x"])
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
