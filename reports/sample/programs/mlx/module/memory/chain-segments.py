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
    w1 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    w2 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    w3 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    w4 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    w5 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    w6 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    w7 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    w8 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    v1 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    v2 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    v3 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    v4 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    v5 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    v6 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    v7 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
    v8 = mx.array(0.12 * rng.standard_normal((64, 64)), mx.float32)
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
        s1 = mx.sin(p1)
        t1 = mx.sin(s1)
        u1 = mx.sin(t1)
        q1 = u1 @ v1
        r1 = mx.sin(q1)
        m1 = mx.sin(r1)
        h = mx.sin(m1)
        return h

    h = segment1(h)

    def segment2(h):
        p2 = h @ w2
        s2 = mx.sin(p2)
        t2 = mx.sin(s2)
        u2 = mx.sin(t2)
        q2 = u2 @ v2
        r2 = mx.sin(q2)
        m2 = mx.sin(r2)
        h = mx.sin(m2)
        return h

    h = segment2(h)

    def segment3(h):
        p3 = h @ w3
        s3 = mx.sin(p3)
        t3 = mx.sin(s3)
        u3 = mx.sin(t3)
        q3 = u3 @ v3
        r3 = mx.sin(q3)
        m3 = mx.sin(r3)
        h = mx.sin(m3)
        return h

    h = segment3(h)

    def segment4(h):
        p4 = h @ w4
        s4 = mx.sin(p4)
        t4 = mx.sin(s4)
        u4 = mx.sin(t4)
        q4 = u4 @ v4
        r4 = mx.sin(q4)
        m4 = mx.sin(r4)
        h = mx.sin(m4)
        return h

    h = segment4(h)
    z = h.sum()
    return z


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1
    segment1_module = nn.Module()
    segment1_module.w1 = w1
    segment1_module.v1 = v1

    def segment1(h):
        p1 = h @ segment1_module.w1
        s1 = mx.sin(p1)
        t1 = mx.sin(s1)
        u1 = mx.sin(t1)
        q1 = u1 @ segment1_module.v1
        r1 = mx.sin(q1)
        m1 = mx.sin(r1)
        h = mx.sin(m1)
        return h

    h = nn.utils.checkpoint(segment1_module, segment1)(h)
    segment2_module = nn.Module()
    segment2_module.w2 = w2
    segment2_module.v2 = v2

    def segment2(h):
        p2 = h @ segment2_module.w2
        s2 = mx.sin(p2)
        t2 = mx.sin(s2)
        u2 = mx.sin(t2)
        q2 = u2 @ segment2_module.v2
        r2 = mx.sin(q2)
        m2 = mx.sin(r2)
        h = mx.sin(m2)
        return h

    h = nn.utils.checkpoint(segment2_module, segment2)(h)
    segment3_module = nn.Module()
    segment3_module.w3 = w3
    segment3_module.v3 = v3

    def segment3(h):
        p3 = h @ segment3_module.w3
        s3 = mx.sin(p3)
        t3 = mx.sin(s3)
        u3 = mx.sin(t3)
        q3 = u3 @ segment3_module.v3
        r3 = mx.sin(q3)
        m3 = mx.sin(r3)
        h = mx.sin(m3)
        return h

    h = nn.utils.checkpoint(segment3_module, segment3)(h)
    segment4_module = nn.Module()
    segment4_module.w4 = w4
    segment4_module.v4 = v4

    def segment4(h):
        p4 = h @ segment4_module.w4
        s4 = mx.sin(p4)
        t4 = mx.sin(s4)
        u4 = mx.sin(t4)
        q4 = u4 @ segment4_module.v4
        r4 = mx.sin(q4)
        m4 = mx.sin(r4)
        h = mx.sin(m4)
        return h

    h = nn.utils.checkpoint(segment4_module, segment4)(h)
    z = h.sum()
    return z


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


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
