"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant mindspore/jit.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def inputs():
    rng = np.random.default_rng(0)
    x = Tensor(0.5 * rng.standard_normal((2048, 64)), ms.float32)
    w1 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="w1")
    w2 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="w2")
    w3 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="w3")
    w4 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="w4")
    w5 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="w5")
    w6 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="w6")
    w7 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="w7")
    w8 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="w8")
    v1 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="v1")
    v2 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="v2")
    v3 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="v3")
    v4 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="v4")
    v5 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="v5")
    v6 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="v6")
    v7 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="v7")
    v8 = Parameter(Tensor(0.12 * rng.standard_normal((64, 64)), ms.float32), name="v8")
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


class Segment1(nn.Cell):
    def __init__(self, w1, v1):
        super().__init__()
        self.w1 = w1
        self.v1 = v1

    def construct(self, h):
        p1 = ops.matmul(h, self.w1)
        s1 = ops.sin(p1)
        t1 = ops.sin(s1)
        u1 = ops.sin(t1)
        q1 = ops.matmul(u1, self.v1)
        r1 = ops.sin(q1)
        m1 = ops.sin(r1)
        h = ops.sin(m1)
        return h


class Segment2(nn.Cell):
    def __init__(self, w2, v2):
        super().__init__()
        self.w2 = w2
        self.v2 = v2

    def construct(self, h):
        p2 = ops.matmul(h, self.w2)
        s2 = ops.sin(p2)
        t2 = ops.sin(s2)
        u2 = ops.sin(t2)
        q2 = ops.matmul(u2, self.v2)
        r2 = ops.sin(q2)
        m2 = ops.sin(r2)
        h = ops.sin(m2)
        return h


class Segment3(nn.Cell):
    def __init__(self, w3, v3):
        super().__init__()
        self.w3 = w3
        self.v3 = v3

    def construct(self, h):
        p3 = ops.matmul(h, self.w3)
        s3 = ops.sin(p3)
        t3 = ops.sin(s3)
        u3 = ops.sin(t3)
        q3 = ops.matmul(u3, self.v3)
        r3 = ops.sin(q3)
        m3 = ops.sin(r3)
        h = ops.sin(m3)
        return h


class Segment4(nn.Cell):
    def __init__(self, w4, v4):
        super().__init__()
        self.w4 = w4
        self.v4 = v4

    def construct(self, h):
        p4 = ops.matmul(h, self.w4)
        s4 = ops.sin(p4)
        t4 = ops.sin(s4)
        u4 = ops.sin(t4)
        q4 = ops.matmul(u4, self.v4)
        r4 = ops.sin(q4)
        m4 = ops.sin(r4)
        h = ops.sin(m4)
        return h


class Net(nn.Cell):
    def __init__(self, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
        super().__init__()
        self.v1 = v1
        self.segment1 = Segment1(w1, v1)
        self.segment2 = Segment2(w2, v2)
        self.segment3 = Segment3(w3, v3)
        self.segment4 = Segment4(w4, v4)

    def construct(self, x):
        h = ops.matmul(x, self.v1)
        h = self.segment1(h)
        h = self.segment2(h)
        h = self.segment3(h)
        h = self.segment4(h)
        z = ops.sum(h)
        return z


def plain(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    return Net(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8)


class RecomputedNet(nn.Cell):
    def __init__(self, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
        super().__init__()
        self.v1 = v1
        self.segment1 = Segment1(w1, v1)
        self.segment2 = Segment2(w2, v2)
        self.segment3 = Segment3(w3, v3)
        self.segment4 = Segment4(w4, v4)

    def construct(self, x):
        h = ops.matmul(x, self.v1)
        h = ms.recompute(self.segment1, h)
        h = ms.recompute(self.segment2, h)
        h = ms.recompute(self.segment3, h)
        h = ms.recompute(self.segment4, h)
        z = ops.sum(h)
        return z


def recomputed(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    return RecomputedNet(w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8)


def run(forward):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    values = inputs()
    held = {k: v for k, v in values.items() if isinstance(v, Parameter)}
    network = forward(**held)
    weights = [values["w1"], values["w4"], values["v4"]]

    def compute(x):
        outputs = network(x)
        return outputs, outputs

    differentiate_compute = ms.jit(
        ms.value_and_grad(compute, grad_position=None, weights=weights, has_aux=True)
    )
    (loss, outputs), of_weights = differentiate_compute(values["x"])
    gradients = {"w1": of_weights[0], "w4": of_weights[1], "v4": of_weights[2]}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
