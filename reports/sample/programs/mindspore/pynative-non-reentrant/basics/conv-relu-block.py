"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant mindspore/pynative-non-reentrant.
Source: the family of programs that every framework's page on recompute opens with
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def inputs():
    rng = np.random.default_rng(0)
    x = Tensor(rng.standard_normal((2, 3, 6, 6)), ms.float32)
    w1 = Parameter(
        Tensor(0.3 * rng.standard_normal((4, 3, 3, 3)), ms.float32), name="w1"
    )
    w2 = Parameter(
        Tensor(0.3 * rng.standard_normal((2, 4, 3, 3)), ms.float32), name="w2"
    )
    return {"x": x, "w1": w1, "w2": w2}


class Block(nn.Cell):
    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = w1
        self.w2 = w2

    def construct(self, x):
        c = ops.conv2d(x, self.w1, pad_mode="same")
        r = ops.relu(c)
        return ops.conv2d(r, self.w2, pad_mode="valid")


class Net(nn.Cell):
    def __init__(self, w1, w2):
        super().__init__()
        self.block = Block(w1, w2)

    def construct(self, x):
        y = self.block(x)
        p = ops.MaxPool(2, 2)(y)
        return ops.avg_pool2d(p, 2, 2)


def plain(w1, w2):
    return Net(w1, w2)


class RecomputedNet(Net):
    def construct(self, x):
        y = ms.recompute(self.block, x, use_reentrant=False)
        p = ops.MaxPool(2, 2)(y)
        return ops.avg_pool2d(p, 2, 2)


def recomputed(w1, w2):
    return RecomputedNet(w1, w2)


def run(forward):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    values = inputs()
    network = forward(values["w1"], values["w2"])
    weights = [values["w1"], values["w2"]]

    def forward_fn(x):
        outputs = network(x)
        loss = ops.sum(outputs)
        return loss, outputs

    grad_fn = ms.value_and_grad(forward_fn, weights=weights, has_aux=True)
    (loss, outputs), (of_inputs, of_weights) = grad_fn(values["x"])
    gradients = {"x": of_inputs, "w1": of_weights[0], "w2": of_weights[1]}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
