"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant mindspore/pynative-non-reentrant.
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
    return {"x": x, "ws": ws, "vs": vs}


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


segment = Segment()


def plain(x, ws, vs):
    h = ops.matmul(x, vs[0])
    for w, v in zip(ws[:4], vs[:4]):
        h = segment(h, w, v)
    return ops.sum(h)


def recomputed(x, ws, vs):
    h = ops.matmul(x, vs[0])
    for w, v in zip(ws[:4], vs[:4]):
        h = ms.recompute(segment, h, w, v, use_reentrant=False)
    return ops.sum(h)


def run(forward):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    values = inputs()
    weights = [*values["ws"], *values["vs"]]

    def forward_fn():
        loss = forward(values["x"], values["ws"], values["vs"])
        return loss

    grad_fn = ms.value_and_grad(forward_fn, grad_position=None, weights=weights)
    loss, of_weights = grad_fn()
    gradients = {"w1": of_weights[0], "w4": of_weights[3], "v4": of_weights[11]}
    return {"outputs": loss, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
