"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant mlx/module.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
"""

import mlx.core as mx
import numpy as np
from mlx import nn


def inputs():
    rng = np.random.default_rng(0)
    x = mx.array(0.5 * rng.standard_normal((3, 4)), mx.float32)
    w = mx.array(0.5 * rng.standard_normal((4, 4)), mx.float32)
    return {"x": x, "w": w}


def plain(x, w):
    def block(x):
        h = x @ w
        s = mx.sin(h)
        a = mx.exp(s)
        return a

    a = block(x)
    z = a * a
    return z


def recomputed(x, w):
    block_module = nn.Module()
    block_module.w = w

    def block(x):
        h = x @ block_module.w
        s = mx.sin(h)
        a = mx.exp(s)
        return a

    a = nn.utils.checkpoint(block_module, block)(x)
    z = a * a
    return z


def run(forward):
    values = inputs()
    wanted = {"x": values["x"]}

    def loss_of(wanted):
        outputs = forward(**values | wanted)
        return outputs.sum(), outputs

    def total_of(wanted):
        (loss, outputs), gradients = mx.value_and_grad(loss_of)(wanted)
        total = sum(gradient.sum() for gradient in gradients.values())
        return total, loss, outputs, gradients

    def second_total_of(wanted):
        (_, *taken), second = mx.value_and_grad(total_of)(wanted)
        return sum(gradient.sum() for gradient in second.values()), *taken

    (_, loss, outputs, gradients), again = mx.value_and_grad(second_total_of)(wanted)
    mx.eval(loss, outputs)
    mx.eval(gradients, again)
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
