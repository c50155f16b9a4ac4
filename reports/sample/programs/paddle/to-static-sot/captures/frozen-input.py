"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant paddle/to-static-sot.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute


def inputs():
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(0.5 * rng.standard_normal((3, 4)), dtype="float32")
    w1 = paddle.nn.Parameter(
        paddle.to_tensor(0.5 * rng.standard_normal((4, 4)), dtype="float32")
    )
    w2 = paddle.nn.Parameter(
        paddle.to_tensor(0.5 * rng.standard_normal((4, 2)), dtype="float32")
    )
    return {"x": x, "w1": w1, "w2": w2}


@paddle.jit.to_static(full_graph=False)
def plain(x, w1, w2):
    def block(x):
        h = x @ w1
        s = paddle.sin(h)
        return paddle.exp(s)

    a = block(x)
    y = a @ w2
    return y * y


@paddle.jit.to_static(full_graph=False)
def recomputed(x, w1, w2):
    def block(x):
        h = x @ w1
        s = paddle.sin(h)
        return paddle.exp(s)

    a = recompute(block, x)
    y = a @ w2
    return y * y


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs.sum()
    loss.backward()
    gradients = {"w1": values["w1"].grad, "w2": values["w2"].grad}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
