"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant mindspore/graph-cell.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def inputs():
    rng = np.random.default_rng(0)
    x = Tensor(rng.standard_normal((8, 16)), ms.float32)
    w1 = Parameter(Tensor(0.3 * rng.standard_normal((16, 16)), ms.float32), name="w1")
    w2 = Parameter(Tensor(0.3 * rng.standard_normal((16, 4)), ms.float32), name="w2")
    return {"x": x, "w1": w1, "w2": w2}


class Block(nn.Cell):
    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = w1
        self.w2 = w2

    def construct(self, x):
        h = ops.matmul(x, self.w1)
        d = ops.dropout(h, p=0.5)
        y = ops.matmul(d, self.w2)
        return y, d


class Net(nn.Cell):
    def __init__(self, w1, w2):
        super().__init__()
        self.block = Block(w1, w2)

    def construct(self, x):
        y, d = self.block(x)
        z = y * y
        return z, d


def plain(w1, w2):
    return Net(w1, w2)


def recomputed(w1, w2):
    network = Net(w1, w2)
    network.block.recompute()
    return network


def run(forward):
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_seed(0)
    values = inputs()
    network = forward(values["w1"], values["w2"])
    weights = [values["w1"], values["w2"]]

    def forward_fn(x):
        outputs = network(x)
        return ops.sum(outputs[0]), outputs

    grad_fn = ms.value_and_grad(forward_fn, weights=weights, has_aux=True)
    (loss, outputs), (of_inputs, of_weights) = grad_fn(values["x"])
    gradients = {"x": of_inputs, "w1": of_weights[0], "w2": of_weights[1]}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
