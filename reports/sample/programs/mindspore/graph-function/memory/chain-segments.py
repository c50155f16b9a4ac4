"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant mindspore/graph-function.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def inputs():
    rng = np.random.default_rng(0)
    x = Tensor(0.5 * rng.standard_normal((2048, 64)), ms.float32)
    ws = [
        Parameter(
            Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name=f"w{i}"
        )
        for i in range(1, 9)
    ]
    vs = [
        Parameter(
            Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name=f"v{i}"
        )
        for i in range(1, 9)
    ]
    return {
        "x": x,
        **{f"w{i}": w for i, w in enumerate(ws, 1)},
        **{f"v{i}": v for i, v in enumerate(vs, 1)},
    }


class Segment(nn.Cell):
    def construct(self, h, w, v):
        p = ops.matmul(h, w)
        s = ops.sin(p)
        t = ops.sin(s)
        u = ops.sin(t)
        q = ops.matmul(u, v)
        r = ops.sin(q)
        m = ops.sin(r)
        return ops.sin(m)


class Net(nn.Cell):
    def __init__(self, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
        super().__init__()
        self.w1 = w1
        self.w2 = w2
        self.w3 = w3
        self.w4 = w4
        self.v1 = v1
        self.v2 = v2
        self.v3 = v3
        self.v4 = v4
        self.segment = Segment()

    def construct(self, x):
        h = ops.matmul(x, self.v1)
        for w, v in zip(
            (self.w1, self.w2, self.w3, self.w4), (self.v1, self.v2, self.v3, self.v4)
        ):
            h = self.segment(h, w, v)
        return ops.sum(h)


def plain(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    return Net(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8)


class RecomputedNet(Net):
    def construct(self, x):
        h = ops.matmul(x, self.v1)
        for w, v in zip(
            (self.w1, self.w2, self.w3, self.w4), (self.v1, self.v2, self.v3, self.v4)
        ):
            h = ms.recompute(self.segment, h, w, v)
        return ops.sum(h)


def recomputed(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    return RecomputedNet(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8)


def run(forward):
    ms.set_context(mode=ms.GRAPH_MODE)
    values = inputs()
    held = {k: v for k, v in values.items() if k != "x"}
    network = forward(**held)
    weights = [values["w1"], values["w4"], values["v4"]]

    def forward_fn(x):
        return network(x)

    grad_fn = ms.value_and_grad(forward_fn, grad_position=None, weights=weights)
    loss, of_weights = grad_fn(values["x"])
    gradients = {"w1": of_weights[0], "w4": of_weights[1], "v4": of_weights[2]}
    return {"outputs": loss, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
