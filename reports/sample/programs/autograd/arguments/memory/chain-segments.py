"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant autograd/arguments.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import autograd.numpy as np
from autograd import checkpoint, make_vjp


def inputs():
    rng = np.random.default_rng(0)
    x = np.array(0.5 * rng.standard_normal((2048, 64)), dtype=np.float32)
    w1 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    w2 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    w3 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    w4 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    w5 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    w6 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    w7 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    w8 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    v1 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    v2 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    v3 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    v4 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    v5 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    v6 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    v7 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
    v8 = np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
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

    def segment1(h, w1, v1):
        p1 = h @ w1
        s1 = np.sin(p1)
        t1 = np.sin(s1)
        u1 = np.sin(t1)
        q1 = u1 @ v1
        r1 = np.sin(q1)
        m1 = np.sin(r1)
        h = np.sin(m1)
        return h

    h = segment1(h, w1, v1)

    def segment2(h, w2, v2):
        p2 = h @ w2
        s2 = np.sin(p2)
        t2 = np.sin(s2)
        u2 = np.sin(t2)
        q2 = u2 @ v2
        r2 = np.sin(q2)
        m2 = np.sin(r2)
        h = np.sin(m2)
        return h

    h = segment2(h, w2, v2)

    def segment3(h, w3, v3):
        p3 = h @ w3
        s3 = np.sin(p3)
        t3 = np.sin(s3)
        u3 = np.sin(t3)
        q3 = u3 @ v3
        r3 = np.sin(q3)
        m3 = np.sin(r3)
        h = np.sin(m3)
        return h

    h = segment3(h, w3, v3)

    def segment4(h, w4, v4):
        p4 = h @ w4
        s4 = np.sin(p4)
        t4 = np.sin(s4)
        u4 = np.sin(t4)
        q4 = u4 @ v4
        r4 = np.sin(q4)
        m4 = np.sin(r4)
        h = np.sin(m4)
        return h

    h = segment4(h, w4, v4)
    z = np.sum(h)
    return z


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment1(h, w1, v1):
        p1 = h @ w1
        s1 = np.sin(p1)
        t1 = np.sin(s1)
        u1 = np.sin(t1)
        q1 = u1 @ v1
        r1 = np.sin(q1)
        m1 = np.sin(r1)
        h = np.sin(m1)
        return h

    h = checkpoint(segment1)(h, w1, v1)

    def segment2(h, w2, v2):
        p2 = h @ w2
        s2 = np.sin(p2)
        t2 = np.sin(s2)
        u2 = np.sin(t2)
        q2 = u2 @ v2
        r2 = np.sin(q2)
        m2 = np.sin(r2)
        h = np.sin(m2)
        return h

    h = checkpoint(segment2)(h, w2, v2)

    def segment3(h, w3, v3):
        p3 = h @ w3
        s3 = np.sin(p3)
        t3 = np.sin(s3)
        u3 = np.sin(t3)
        q3 = u3 @ v3
        r3 = np.sin(q3)
        m3 = np.sin(r3)
        h = np.sin(m3)
        return h

    h = checkpoint(segment3)(h, w3, v3)

    def segment4(h, w4, v4):
        p4 = h @ w4
        s4 = np.sin(p4)
        t4 = np.sin(s4)
        u4 = np.sin(t4)
        q4 = u4 @ v4
        r4 = np.sin(q4)
        m4 = np.sin(r4)
        h = np.sin(m4)
        return h

    h = checkpoint(segment4)(h, w4, v4)
    z = np.sum(h)
    return z


def run(forward):
    values = inputs()
    wanted = {
        name: values[name]
        for name in (
            "w1",
            "w2",
            "w3",
            "w4",
            "w5",
            "w6",
            "w7",
            "w8",
            "v1",
            "v2",
            "v3",
            "v4",
            "v5",
            "v6",
            "v7",
            "v8",
        )
    }
    seen = []

    def loss_of(wanted):
        outputs = forward(**{**values, **wanted})
        seen.append(outputs)
        return outputs

    vjp, loss = make_vjp(loss_of)(wanted)
    outputs = seen[0]
    gradients = vjp(np.ones_like(loss))
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": {
            "w1": gradients["w1"],
            "w4": gradients["w4"],
            "v4": gradients["v4"],
        },
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
