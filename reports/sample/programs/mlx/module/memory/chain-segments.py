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
    return {
        "x": x,
        **{f"w{i}": w for i, w in enumerate(ws, 1)},
        **{f"v{i}": v for i, v in enumerate(vs, 1)},
    }


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment(h, w, v):
        p = h @ w
        s = mx.sin(p)
        t = mx.sin(s)
        u = mx.sin(t)
        q = u @ v
        r = mx.sin(q)
        m = mx.sin(r)
        return mx.sin(m)

    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = segment(h, w, v)
    return h.sum()


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1
    segment_module = nn.Module()

    def segment(h, w, v):
        p = h @ w
        s = mx.sin(p)
        t = mx.sin(s)
        u = mx.sin(t)
        q = u @ v
        r = mx.sin(q)
        m = mx.sin(r)
        return mx.sin(m)

    remat_segment = nn.utils.checkpoint(segment_module, segment)
    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = remat_segment(h, w, v)
    return h.sum()


def run(forward):
    values = inputs()
    wanted = {"w1": values["w1"], "w4": values["w4"], "v4": values["v4"]}

    def loss_of(wanted):
        outputs = forward(**values | wanted)
        return outputs, outputs

    (loss, outputs), gradients = mx.value_and_grad(loss_of)(wanted)
    mx.eval(loss, outputs)
    mx.eval(gradients)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
