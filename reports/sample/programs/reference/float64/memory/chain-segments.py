"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant reference/float64.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import numpy as np
import tape


def inputs():
    rng = np.random.default_rng(0)
    x = tape.tensor(0.5 * rng.standard_normal((2048, 64)))
    w1 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    w2 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    w3 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    w4 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    w5 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    w6 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    w7 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    w8 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    v1 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    v2 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    v3 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    v4 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    v5 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    v6 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    v7 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
    v8 = tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
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
    h = tape.matmul(x, v1)

    def segment1(h):
        p1 = tape.matmul(h, w1)
        s1 = tape.sin(p1)
        t1 = tape.sin(s1)
        u1 = tape.sin(t1)
        q1 = tape.matmul(u1, v1)
        r1 = tape.sin(q1)
        m1 = tape.sin(r1)
        h = tape.sin(m1)
        return h

    h = segment1(h)

    def segment2(h):
        p2 = tape.matmul(h, w2)
        s2 = tape.sin(p2)
        t2 = tape.sin(s2)
        u2 = tape.sin(t2)
        q2 = tape.matmul(u2, v2)
        r2 = tape.sin(q2)
        m2 = tape.sin(r2)
        h = tape.sin(m2)
        return h

    h = segment2(h)

    def segment3(h):
        p3 = tape.matmul(h, w3)
        s3 = tape.sin(p3)
        t3 = tape.sin(s3)
        u3 = tape.sin(t3)
        q3 = tape.matmul(u3, v3)
        r3 = tape.sin(q3)
        m3 = tape.sin(r3)
        h = tape.sin(m3)
        return h

    h = segment3(h)

    def segment4(h):
        p4 = tape.matmul(h, w4)
        s4 = tape.sin(p4)
        t4 = tape.sin(s4)
        u4 = tape.sin(t4)
        q4 = tape.matmul(u4, v4)
        r4 = tape.sin(q4)
        m4 = tape.sin(r4)
        h = tape.sin(m4)
        return h

    h = segment4(h)
    z = tape.sum(h)
    return z


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = tape.matmul(x, v1)

    def segment1(h):
        p1 = tape.matmul(h, w1)
        s1 = tape.sin(p1)
        t1 = tape.sin(s1)
        u1 = tape.sin(t1)
        q1 = tape.matmul(u1, v1)
        r1 = tape.sin(q1)
        m1 = tape.sin(r1)
        h = tape.sin(m1)
        return h

    recomputed_segment1 = tape.recompute(segment1)
    h = recomputed_segment1(h)

    def segment2(h):
        p2 = tape.matmul(h, w2)
        s2 = tape.sin(p2)
        t2 = tape.sin(s2)
        u2 = tape.sin(t2)
        q2 = tape.matmul(u2, v2)
        r2 = tape.sin(q2)
        m2 = tape.sin(r2)
        h = tape.sin(m2)
        return h

    recomputed_segment2 = tape.recompute(segment2)
    h = recomputed_segment2(h)

    def segment3(h):
        p3 = tape.matmul(h, w3)
        s3 = tape.sin(p3)
        t3 = tape.sin(s3)
        u3 = tape.sin(t3)
        q3 = tape.matmul(u3, v3)
        r3 = tape.sin(q3)
        m3 = tape.sin(r3)
        h = tape.sin(m3)
        return h

    recomputed_segment3 = tape.recompute(segment3)
    h = recomputed_segment3(h)

    def segment4(h):
        p4 = tape.matmul(h, w4)
        s4 = tape.sin(p4)
        t4 = tape.sin(s4)
        u4 = tape.sin(t4)
        q4 = tape.matmul(u4, v4)
        r4 = tape.sin(q4)
        m4 = tape.sin(r4)
        h = tape.sin(m4)
        return h

    recomputed_segment4 = tape.recompute(segment4)
    h = recomputed_segment4(h)
    z = tape.sum(h)
    return z


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs
    names = ["w1", "w4", "v4"]
    wrt = [values[name] for name in names]
    first = tape.gradient(loss, wrt)
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": dict(zip(names, first, strict=True)),
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
