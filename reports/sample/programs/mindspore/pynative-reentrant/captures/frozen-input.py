"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant mindspore/pynative-reentrant.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def inputs():
    rng = np.random.default_rng(0)
    x = Tensor(0.5 * rng.standard_normal((3, 4)), ms.float32)
    w1 = Parameter(Tensor(0.5 * rng.standard_normal((4, 4)), ms.float32), name="w1")
    w2 = Parameter(Tensor(0.5 * rng.standard_normal((4, 2)), ms.float32), name="w2")
    return {"x": x, "w1": w1, "w2": w2}


class Block(nn.Cell):
    def __init__(self, w1):
        super().__init__()
        self.w1 = w1

    def construct(self, x):
        h = ops.matmul(x, self.w1)
        s = ops.sin(h)
        return ops.exp(s)


class Net(nn.Cell):
    def __init__(self, w1, w2):
        super().__init__()
        self.w2 = w2
        self.block = Block(w1)

    def construct(self, x):
        a = self.block(x)
        y = ops.matmul(a, self.w2)
        return y * y


def plain(w1, w2):
    return Net(w1, w2)


class RecomputedNet(Net):
    def construct(self, x):
        a = ms.recompute(self.block, x, use_reentrant=True)
        y = ops.matmul(a, self.w2)
        return y * y


def recomputed(w1, w2):
    return RecomputedNet(w1, w2)


def run(forward):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    values = inputs()
    network = forward(values["w1"], values["w2"])
    weights = [values["w1"], values["w2"]]

    def forward_fn():
        outputs = network(values["x"])
        loss = ops.sum(outputs)
        return loss, outputs

    grad_fn = ms.value_and_grad(
        forward_fn, grad_position=None, weights=weights, has_aux=True
    )
    (loss, outputs), of_weights = grad_fn()
    gradients = {"w1": of_weights[0], "w2": of_weights[1]}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
