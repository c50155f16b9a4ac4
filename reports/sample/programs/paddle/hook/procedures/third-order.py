"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant paddle/hook.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
"""

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute


def inputs():
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(
        0.5 * rng.standard_normal((3, 4)), dtype="float32", stop_gradient=False
    )
    w = paddle.nn.Parameter(
        paddle.to_tensor(0.5 * rng.standard_normal((4, 4)), dtype="float32"),
        requires_grad=False,
    )
    return {"x": x, "w": w}


def plain(x, w):
    def block(x):
        h = x @ w
        s = paddle.sin(h)
        a = paddle.exp(s)
        return a

    a = block(x)
    z = a * a
    return z


def recomputed(x, w):
    def block(x):
        h = x @ w
        s = paddle.sin(h)
        a = paddle.exp(s)
        return a

    a = recompute(block, x, use_reentrant=False)
    z = a * a
    return z


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs.sum()
    names = ["x"]
    wanted = [values[name] for name in names]
    first = paddle.grad(loss, wanted, create_graph=True)
    gradients = dict(zip(names, first))
    total = sum(gradient.sum() for gradient in first)
    second = paddle.grad(total, wanted, create_graph=True)
    total = sum(gradient.sum() for gradient in second)
    last = paddle.grad(total, wanted, allow_unused=True)
    again = dict(zip(names, last))
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": gradients,
        "again": again,
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
