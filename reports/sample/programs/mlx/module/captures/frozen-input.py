"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant mlx/module.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import mlx.core as mx
import numpy as np
from mlx import nn


def inputs():
    rng = np.random.default_rng(0)
    x = mx.array(0.5 * rng.standard_normal((3, 4)), mx.float32)
    w1 = mx.array(0.5 * rng.standard_normal((4, 4)), mx.float32)
    w2 = mx.array(0.5 * rng.standard_normal((4, 2)), mx.float32)
    return {"x": x, "w1": w1, "w2": w2}


class Block(nn.Module):
    def __init__(self, w1):
        super().__init__()
        self.w1 = w1

    def __call__(self, x):
        h = x @ self.w1
        s = mx.sin(h)
        return mx.exp(s)


def plain(x, w1, w2):
    block = Block(w1)
    a = block(x)
    y = a @ w2
    return y * y


def recomputed(x, w1, w2):
    block = Block(w1)
    a = nn.utils.checkpoint(block)(x)
    y = a @ w2
    return y * y


def run(forward):
    values = inputs()
    wanted = {"w1": values["w1"], "w2": values["w2"]}

    def loss_of(wanted):
        outputs = forward(**values | wanted)
        return outputs.sum(), outputs

    (loss, outputs), gradients = mx.value_and_grad(loss_of)(wanted)
    mx.eval(loss, outputs)
    mx.eval(gradients)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
