"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant keras/remat-torch.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(0.5 * rng.standard_normal((2048, 64)), "float32")
    ws = [
        keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
        for _ in range(8)
    ]
    vs = [
        keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
        for _ in range(8)
    ]
    return {
        "x": x,
        **{f"w{i}": w for i, w in enumerate(ws, 1)},
        **{f"v{i}": v for i, v in enumerate(vs, 1)},
    }


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = ops.matmul(x, v1)

    def segment(h, w, v):
        p = ops.matmul(h, w)
        s = ops.sin(p)
        t = ops.sin(s)
        u = ops.sin(t)
        q = ops.matmul(u, v)
        r = ops.sin(q)
        m = ops.sin(r)
        return ops.sin(m)

    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = segment(h, w.value, v.value)
    return ops.sum(h)


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = ops.matmul(x, v1)

    def segment(h, w, v):
        p = ops.matmul(h, w)
        s = ops.sin(p)
        t = ops.sin(s)
        u = ops.sin(t)
        q = ops.matmul(u, v)
        r = ops.sin(q)
        m = ops.sin(r)
        return ops.sin(m)

    remat_segment = keras.remat(segment)
    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = remat_segment(h, w.value, v.value)
    return ops.sum(h)


def run(forward):
    values = inputs()
    wanted = {
        **{f"w{i}": values[f"w{i}"].value for i in range(1, 9)},
        **{f"v{i}": values[f"v{i}"].value for i in range(1, 9)},
    }
    outputs = forward(**values)
    loss = outputs
    loss.backward()
    gradients = {name: value.grad for name, value in wanted.items()}
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
