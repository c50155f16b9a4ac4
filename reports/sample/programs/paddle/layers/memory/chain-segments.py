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
        nn.Parameter(
            paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
        )
        for _ in range(8)
    ]
    vs = [
        nn.Parameter(
            paddle.to_tensor(0.12 * rng.standard_normal((64, 64)), dtype="float32")
        )
        for _ in range(8)
    ]
    return {"x": x, "ws": ws, "vs": vs}


class Segment(nn.Layer):
    def forward(self, h, w, v):
        p = h @ w
        s = paddle.sin(p)
        t = paddle.sin(s)
        u = paddle.sin(t)
        q = u @ v
        r = paddle.sin(q)
        m = paddle.sin(r)
        return paddle.sin(m)


segment = Segment()


def plain(x, ws, vs):
    h = x @ vs[0]
    for w, v in zip(ws[:4], vs[:4]):
        h = segment(h, w, v)
    return h.sum()


def recomputed(x, ws, vs):
    h = x @ vs[0]
    for w, v in zip(ws[:4], vs[:4]):
        h = recompute(segment, h, w, v)
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
