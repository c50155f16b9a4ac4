"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant mlx/module.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import mlx.core as mx
import numpy as np
from mlx import nn


def dropout(x, p, key=None):
    keep = mx.random.bernoulli(1 - p, x.shape, key)
    return mx.where(keep, x / (1 - p), 0)


def inputs():
    rng = np.random.default_rng(0)
    x = mx.array(rng.standard_normal((8, 16)), mx.float32)
    w1 = mx.array(0.3 * rng.standard_normal((16, 16)), mx.float32)
    w2 = mx.array(0.3 * rng.standard_normal((16, 4)), mx.float32)
    return {"x": x, "w1": w1, "w2": w2}


class Block(nn.Module):
    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = w1
        self.w2 = w2

    def __call__(self, x):
        h = x @ self.w1
        d = dropout(h, 0.5)
        y = d @ self.w2
        return y, d


def plain(x, w1, w2):
    block = Block(w1, w2)
    y, d = block(x)
    z = y * y
    return z, d


def recomputed(x, w1, w2):
    block = Block(w1, w2)
    y, d = nn.utils.checkpoint(block)(x)
    z = y * y
    return z, d


def run(forward):
    mx.random.seed(0)
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
