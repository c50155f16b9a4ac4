"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant autograd/arguments.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import autograd.numpy as np
from autograd import checkpoint, make_vjp


def inputs():
    rng = np.random.default_rng(0)
    x = np.array(0.5 * rng.standard_normal((2048, 64)), dtype=np.float32)
    ws = [
        np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
        for _ in range(8)
    ]
    vs = [
        np.array(0.12 * rng.standard_normal((64, 64)), dtype=np.float32)
        for _ in range(8)
    ]
    return {"x": x, "ws": ws, "vs": vs}


def segment(h, w, v):
    p = h @ w
    s = np.sin(p)
    t = np.sin(s)
    u = np.sin(t)
    q = u @ v
    r = np.sin(q)
    m = np.sin(r)
    return np.sin(m)


def plain(x, ws, vs):
    h = x @ vs[0]
    for w, v in zip(ws[:4], vs[:4]):
        h = segment(h, w, v)
    return np.sum(h)


def recomputed(x, ws, vs):
    h = x @ vs[0]
    remat_segment = checkpoint(segment)
    for w, v in zip(ws[:4], vs[:4]):
        h = remat_segment(h, w, v)
    return np.sum(h)


def run(forward):
    values = inputs()
    wanted = {"ws": values["ws"], "vs": values["vs"]}

    def loss_of(wanted):
        return forward(**{**values, **wanted})

    vjp, loss = make_vjp(loss_of)(wanted)
    gradients = vjp(np.ones_like(loss))
    gradients = {
        "w1": gradients["ws"][0],
        "w4": gradients["ws"][3],
        "v4": gradients["vs"][3],
    }
    return {"outputs": loss, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
