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
    ws = [
        paddle.nn.Parameter(
            paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
        )
        for _ in range(8)
    ]
    vs = [
        paddle.nn.Parameter(
            paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
        )
        for _ in range(8)
    ]
    return {
        "x": x,
        **{f"w{i}": w for i, w in enumerate(ws, 1)},
        **{f"v{i}": v for i, v in enumerate(vs, 1)},
    }


class Segment(nn.Layer):
    def __init__(self):
        super().__init__()

    def forward(self, h, w, v):
        p = h @ w
        s = paddle.sin(p)
        t = paddle.sin(s)
        u = paddle.sin(t)
        q = u @ v
        r = paddle.sin(q)
        m = paddle.sin(r)
        return paddle.sin(m)


class PlainNet(nn.Layer):
    def __init__(self, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
        super().__init__()
        self.w1 = w1
        self.w2 = w2
        self.w3 = w3
        self.w4 = w4
        self.v1 = v1
        self.v2 = v2
        self.v3 = v3
        self.v4 = v4
        self.segment = Segment()

    def forward(self, x):
        h = x @ self.v1
        for w, v in zip(
            (self.w1, self.w2, self.w3, self.w4), (self.v1, self.v2, self.v3, self.v4)
        ):
            h = self.segment(h, w, v)
        return h.sum()


def plain(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    return PlainNet(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8)


class RecomputedNet(nn.Layer):
    def __init__(self, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
        super().__init__()
        self.w1 = w1
        self.w2 = w2
        self.w3 = w3
        self.w4 = w4
        self.v1 = v1
        self.v2 = v2
        self.v3 = v3
        self.v4 = v4
        self.segment = Segment()

    def forward(self, x):
        h = x @ self.v1
        for w, v in zip(
            (self.w1, self.w2, self.w3, self.w4), (self.v1, self.v2, self.v3, self.v4)
        ):
            h = recompute(self.segment, h, w, v)
        return h.sum()


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


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
