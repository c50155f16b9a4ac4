"""A region that returns a tuple inside a tuple.

Case structure/nested-tuple-output, variant mindspore/pynative-reentrant.
Source: pytorch issue 124725; Paddle's recompute with nested outputs
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def inputs():
    rng = np.random.default_rng(0)
    x = Tensor(0.5 * rng.standard_normal((3, 4)), ms.float32)
    w = Parameter(Tensor(0.5 * rng.standard_normal((4, 4)), ms.float32), name="w")
    return {"x": x, "w": w}


class Block(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def construct(self, x):
        h = ops.matmul(x, self.w)
        a = ops.sin(h)
        b = ops.tanh(h)
        c = ops.exp(a)
        return a, (b, c)


class Net(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.block = Block(w)

    def construct(self, x):
        a, (b, c) = self.block(x)
        ab = a * b
        z = ab * c
        return z, (b, c)


def plain(w):
    return Net(w)


class RecomputedNet(Net):
    def construct(self, x):
        a, (b, c) = ms.recompute(self.block, x, use_reentrant=True)
        ab = a * b
        z = ab * c
        return z, (b, c)


def recomputed(w):
    return RecomputedNet(w)


def run(forward):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    values = inputs()
    network = forward(values["w"])
    weights = [values["w"]]

    def forward_fn(x):
        outputs = network(x)
        loss = ops.sum(outputs[0])
        return loss, outputs

    grad_fn = ms.value_and_grad(forward_fn, weights=weights, has_aux=True)
    (loss, outputs), (of_inputs, of_weights) = grad_fn(values["x"])
    gradients = {"x": of_inputs, "w": of_weights[0]}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
