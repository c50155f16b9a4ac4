"""A recomputed convolution feeding a plain ReLU.

Case basics/conv-relu-gradient, variant mlx/module.
Source: mindspore.recompute, API page, example
"""

import mlx.core as mx
import numpy as np
from mlx import nn


def conv2d(x, w, stride=1, same=False):
    x, w = x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1)
    over = [size - 1 if same else 0 for size in w.shape[1:3]]
    padding = [n // 2 for n in over], [n - n // 2 for n in over]
    return mx.conv_general(x, w, stride, padding).transpose(0, 3, 1, 2)


def inputs():
    x = mx.array(np.full((2, 2, 2, 2), 2.0), mx.float32)
    w = mx.array(np.full((2, 2, 2, 2), 1.0), mx.float32)
    return {"x": x, "w": w}


def plain(x, w):
    def conv(x):
        y = conv2d(x, w, same=True)
        return y

    y = conv(x)
    z = nn.relu(y)
    return z


def recomputed(x, w):
    conv_module = nn.Module()
    conv_module.w = w

    def conv(x):
        y = conv2d(x, conv_module.w, same=True)
        return y

    y = nn.utils.checkpoint(conv_module, conv)(x)
    z = nn.relu(y)
    return z


def run(forward):
    values = inputs()
    wanted = {"x": values["x"], "w": values["w"]}

    def loss_of(wanted):
        outputs = forward(**values | wanted)
        return outputs.sum(), outputs

    (loss, outputs), gradients = mx.value_and_grad(loss_of)(wanted)
    mx.eval(loss, outputs)
    mx.eval(gradients)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
