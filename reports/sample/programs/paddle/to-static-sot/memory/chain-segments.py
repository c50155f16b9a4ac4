"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant paddle/to-static-sot.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import numpy as np
import paddle
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


@paddle.jit.to_static(full_graph=False)
def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment1(h):
        p1 = h @ w1
        s1 = paddle.sin(p1)
        t1 = paddle.sin(s1)
        u1 = paddle.sin(t1)
        q1 = u1 @ v1
        r1 = paddle.sin(q1)
        m1 = paddle.sin(r1)
        h = paddle.sin(m1)
        return h

    h = segment1(h)

    def segment2(h):
        p2 = h @ w2
        s2 = paddle.sin(p2)
        t2 = paddle.sin(s2)
        u2 = paddle.sin(t2)
        q2 = u2 @ v2
        r2 = paddle.sin(q2)
        m2 = paddle.sin(r2)
        h = paddle.sin(m2)
        return h

    h = segment2(h)

    def segment3(h):
        p3 = h @ w3
        s3 = paddle.sin(p3)
        t3 = paddle.sin(s3)
        u3 = paddle.sin(t3)
        q3 = u3 @ v3
        r3 = paddle.sin(q3)
        m3 = paddle.sin(r3)
        h = paddle.sin(m3)
        return h

    h = segment3(h)

    def segment4(h):
        p4 = h @ w4
        s4 = paddle.sin(p4)
        t4 = paddle.sin(s4)
        u4 = paddle.sin(t4)
        q4 = u4 @ v4
        r4 = paddle.sin(q4)
        m4 = paddle.sin(r4)
        h = paddle.sin(m4)
        return h

    h = segment4(h)
    z = h.sum()
    return z


@paddle.jit.to_static(full_graph=False)
def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment1(h):
        p1 = h @ w1
        s1 = paddle.sin(p1)
        t1 = paddle.sin(s1)
        u1 = paddle.sin(t1)
        q1 = u1 @ v1
        r1 = paddle.sin(q1)
        m1 = paddle.sin(r1)
        h = paddle.sin(m1)
        return h

    h = recompute(segment1, h)

    def segment2(h):
        p2 = h @ w2
        s2 = paddle.sin(p2)
        t2 = paddle.sin(s2)
        u2 = paddle.sin(t2)
        q2 = u2 @ v2
        r2 = paddle.sin(q2)
        m2 = paddle.sin(r2)
        h = paddle.sin(m2)
        return h

    h = recompute(segment2, h)

    def segment3(h):
        p3 = h @ w3
        s3 = paddle.sin(p3)
        t3 = paddle.sin(s3)
        u3 = paddle.sin(t3)
        q3 = u3 @ v3
        r3 = paddle.sin(q3)
        m3 = paddle.sin(r3)
        h = paddle.sin(m3)
        return h

    h = recompute(segment3, h)

    def segment4(h):
        p4 = h @ w4
        s4 = paddle.sin(p4)
        t4 = paddle.sin(s4)
        u4 = paddle.sin(t4)
        q4 = u4 @ v4
        r4 = paddle.sin(q4)
        m4 = paddle.sin(r4)
        h = paddle.sin(m4)
        return h

    h = recompute(segment4, h)
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
