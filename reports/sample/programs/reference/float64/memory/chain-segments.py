"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant reference/float64.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import numpy as np
import tape


def inputs():
    rng = np.random.default_rng(0)
    x = tape.tensor(0.5 * rng.standard_normal((2048, 64)))
    ws = [
        tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
        for _ in range(8)
    ]
    vs = [
        tape.tensor(0.12 * rng.standard_normal((64, 64)), gradient=True)
        for _ in range(8)
    ]
    return {
        "x": x,
        **{f"w{i}": w for i, w in enumerate(ws, 1)},
        **{f"v{i}": v for i, v in enumerate(vs, 1)},
    }


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = tape.matmul(x, v1)

    def segment(h, w, v):
        p = tape.matmul(h, w)
        s = tape.sin(p)
        t = tape.sin(s)
        u = tape.sin(t)
        q = tape.matmul(u, v)
        r = tape.sin(q)
        m = tape.sin(r)
        return tape.sin(m)

    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = segment(h, w, v)
    return tape.sum(h)


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = tape.matmul(x, v1)

    def segment(h, w, v):
        p = tape.matmul(h, w)
        s = tape.sin(p)
        t = tape.sin(s)
        u = tape.sin(t)
        q = tape.matmul(u, v)
        r = tape.sin(q)
        m = tape.sin(r)
        return tape.sin(m)

    recomputed_segment = tape.recompute(segment)
    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = recomputed_segment(h, w, v)
    return tape.sum(h)


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


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
