"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant paddle/hook.
Source: the family of programs that every framework's page on recompute opens with
"""

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.distributed.fleet.utils import recompute


def inputs():
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(
        rng.standard_normal((2, 3, 6, 6)), dtype="float32", stop_gradient=False
    )
    w1 = paddle.nn.Parameter(
        paddle.to_tensor(0.3 * rng.standard_normal((4, 3, 3, 3)), dtype="float32")
    )
    w2 = paddle.nn.Parameter(
        paddle.to_tensor(0.3 * rng.standard_normal((2, 4, 3, 3)), dtype="float32")
    )
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        c = F.conv2d(x, w1, padding="same")
        r = F.relu(c)
        return F.conv2d(r, w2)

    y = block(x)
    p = F.max_pool2d(y, 2)
    return F.avg_pool2d(p, 2)


def recomputed(x, w1, w2):
    def block(x):
        c = F.conv2d(x, w1, padding="same")
        r = F.relu(c)
        return F.conv2d(r, w2)

    y = recompute(block, x, use_reentrant=False)
    p = F.max_pool2d(y, 2)
    return F.avg_pool2d(p, 2)


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs.sum()
    loss.backward()
    gradients = {
        "x": values["x"].grad,
        "w1": values["w1"].grad,
        "w2": values["w2"].grad,
    }
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
