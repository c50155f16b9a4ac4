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
    return {"x": x, "ws": ws, "vs": vs}


def segment(h, w, v):
    p = tape.matmul(h, w)
    s = tape.sin(p)
    t = tape.sin(s)
    u = tape.sin(t)
    q = tape.matmul(u, v)
    r = tape.sin(q)
    m = tape.sin(r)
    return tape.sin(m)


def plain(x, ws, vs):
    h = tape.matmul(x, vs[0])
    for w, v in zip(ws[:4], vs[:4]):
        h = segment(h, w, v)
    return tape.sum(h)


def recomputed(x, ws, vs):
    h = tape.matmul(x, vs[0])
    recomputed_segment = tape.recompute(segment)
    for w, v in zip(ws[:4], vs[:4]):
        h = recomputed_segment(h, w, v)
    return tape.sum(h)


def run(forward):
    values = inputs()
    loss = forward(**values)
    names = ["w1", "w4", "v4"]
    wrt = [values["ws"][0], values["ws"][3], values["vs"][3]]
    first = tape.gradient(loss, wrt)
    return {
        "outputs": loss,
        "losses": [loss],
        "gradients": dict(zip(names, first, strict=True)),
    }


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
