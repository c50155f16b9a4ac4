"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant mlx/module.
Source: the family of programs that every framework's page on recompute opens with
"""

import mlx.core as mx
import numpy as np
from mlx import nn


def conv2d(x, w, stride=1, same=False):
    # MLX has images and weights with the channels last.
    x, w = x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1)
    over = [size - 1 if same else 0 for size in w.shape[1:3]]
    padding = [n // 2 for n in over], [n - n // 2 for n in over]
    return mx.conv_general(x, w, stride, padding).transpose(0, 3, 1, 2)


def max_pool2d(x, size):
    return nn.MaxPool2d(size)(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def avg_pool2d(x, size):
    return nn.AvgPool2d(size)(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def inputs():
    rng = np.random.default_rng(0)
    x = mx.array(rng.standard_normal((2, 3, 6, 6)), mx.float32)
    w1 = mx.array(0.3 * rng.standard_normal((4, 3, 3, 3)), mx.float32)
    w2 = mx.array(0.3 * rng.standard_normal((2, 4, 3, 3)), mx.float32)
    return {"x": x, "w1": w1, "w2": w2}


class Block(nn.Module):
    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = w1
        self.w2 = w2

    def __call__(self, x):
        c = conv2d(x, self.w1, same=True)
        r = nn.relu(c)
        return conv2d(r, self.w2)


def plain(x, w1, w2):
    block = Block(w1, w2)
    y = block(x)
    p = max_pool2d(y, 2)
    return avg_pool2d(p, 2)


def recomputed(x, w1, w2):
    block = Block(w1, w2)
    y = nn.utils.checkpoint(block)(x)
    p = max_pool2d(y, 2)
    return avg_pool2d(p, 2)


def run(forward):
    values = inputs()

    def loss_of(values):
        outputs = forward(**values)
        return outputs.sum(), outputs

    (loss, outputs), gradients = mx.value_and_grad(loss_of)(values)
    mx.eval(loss, outputs)
    mx.eval(gradients)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
