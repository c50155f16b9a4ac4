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


def plain(x, w1, w2):
    def block(x):
        h = x @ w1
        s = mx.sin(h)
        return mx.exp(s)

    a = block(x)
    y = a @ w2
    return y * y


def recomputed(x, w1, w2):
    block_module = nn.Module()
    block_module.w1 = w1

    def block(x):
        h = x @ block_module.w1
        s = mx.sin(h)
        return mx.exp(s)

    a = nn.utils.checkpoint(block_module, block)(x)
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
