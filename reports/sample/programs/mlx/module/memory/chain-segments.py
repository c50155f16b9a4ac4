"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant mlx/module.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import mlx.core as mx
import numpy as np
from mlx import nn


def inputs():
    rng = np.random.default_rng(0)
    x = mx.array(0.5 * rng.standard_normal((2048, 64)), mx.float32)
    ws = [mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32) for _ in range(8)]
    vs = [mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32) for _ in range(8)]
    return {"x": x, "ws": ws, "vs": vs}


class Segment(nn.Module):
    def __call__(self, h, w, v):
        p = h @ w
        s = mx.sin(p)
        t = mx.sin(s)
        u = mx.sin(t)
        q = u @ v
        r = mx.sin(q)
        m = mx.sin(r)
        return mx.sin(m)


def plain(x, ws, vs):
    h = x @ vs[0]
    segment = Segment()
    for w, v in zip(ws[:4], vs[:4]):
        h = segment(h, w, v)
    return h.sum()


def recomputed(x, ws, vs):
    h = x @ vs[0]
    segment = Segment()
    remat_segment = nn.utils.checkpoint(segment)
    for w, v in zip(ws[:4], vs[:4]):
        h = remat_segment(h, w, v)
    return h.sum()


def run(forward):
    values = inputs()
    wanted = {"ws": values["ws"], "vs": values["vs"]}

    def loss_of(wanted):
        return forward(**values | wanted)

    loss, gradients = mx.value_and_grad(loss_of)(wanted)
    mx.eval(loss)
    mx.eval(gradients)
    gradients = {
        "w1": gradients["ws"][0],
        "w4": gradients["ws"][3],
        "v4": gradients["vs"][3],
    }
    return {"outputs": loss, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
