"""A recomputed convolution feeding a plain ReLU.

Case basics/conv-relu-gradient, variant paddle/to-static-ast.
Source: mindspore.recompute, API page, example
"""

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.distributed.fleet.utils import recompute


def inputs():
    x = paddle.to_tensor(
        np.full((2, 2, 2, 2), 2.0), dtype="float32", stop_gradient=False
    )
    w = paddle.nn.Parameter(
        paddle.to_tensor(np.full((2, 2, 2, 2), 1.0), dtype="float32")
    )
    return {"x": x, "w": w}


@paddle.jit.to_static(full_graph=True)
def plain(x, w):
    def conv(x):
        y = F.conv2d(x, w, padding="same")
        return y

    y = conv(x)
    z = F.relu(y)
    return z


@paddle.jit.to_static(full_graph=True)
def recomputed(x, w):
    def conv(x):
        y = F.conv2d(x, w, padding="same")
        return y

    y = recompute(conv, x)
    z = F.relu(y)
    return z


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs.sum()
    loss.backward()
    gradients = {"x": values["x"].grad, "w": values["w"].grad}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
