"""A region that returns a tuple inside a tuple.

Case structure/nested-tuple-output, variant mlx/module.
Source: pytorch issue 124725; Paddle's recompute with nested outputs
"""

import mlx.core as mx
import numpy as np
from mlx import nn


def inputs():
    rng = np.random.default_rng(0)
    x = mx.array(0.5 * rng.standard_normal((3, 4)), mx.float32)
    w = mx.array(0.5 * rng.standard_normal((4, 4)), mx.float32)
    return {"x": x, "w": w}


class Block(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def __call__(self, x):
        h = x @ self.w
        a = mx.sin(h)
        b = mx.tanh(h)
        c = mx.exp(a)
        return a, (b, c)


def plain(x, w):
    block = Block(w)
    a, (b, c) = block(x)
    ab = a * b
    z = ab * c
    return z, (b, c)


def recomputed(x, w):
    block = Block(w)
    a, (b, c) = nn.utils.checkpoint(block)(x)
    ab = a * b
    z = ab * c
    return z, (b, c)


def run(forward):
    values = inputs()

    def loss_of(values):
        outputs = forward(**values)
        return outputs[0].sum(), outputs

    (loss, outputs), gradients = mx.value_and_grad(loss_of)(values)
    mx.eval(loss, outputs)
    mx.eval(gradients)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
