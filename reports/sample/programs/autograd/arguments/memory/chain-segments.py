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
    return {
        "x": x,
        **{f"w{i}": w for i, w in enumerate(ws, 1)},
        **{f"v{i}": v for i, v in enumerate(vs, 1)},
    }


def segment(h, w, v):
    p = h @ w
    s = np.sin(p)
    t = np.sin(s)
    u = np.sin(t)
    q = u @ v
    r = np.sin(q)
    m = np.sin(r)
    return np.sin(m)


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1
    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = segment(h, w, v)
    return np.sum(h)


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1
    remat_segment = checkpoint(segment)
    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = remat_segment(h, w, v)
    return np.sum(h)


def run(forward):
    values = inputs()
    wanted = {
        **{f"w{i}": values[f"w{i}"] for i in range(1, 9)},
        **{f"v{i}": values[f"v{i}"] for i in range(1, 9)},
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


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
