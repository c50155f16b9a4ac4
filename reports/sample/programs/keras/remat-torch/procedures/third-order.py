"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant keras/remat-torch.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(0.5 * rng.standard_normal((3, 4)), "float32")
    w = keras.Variable(
        0.5 * rng.standard_normal((4, 4)), dtype="float32", trainable=False
    )
    return {"x": x, "w": w}


def plain(x, w):
    def block(x):
        h = ops.matmul(x, w)
        s = ops.sin(h)
        a = ops.exp(s)
        return a

    a = block(x)
    z = ops.multiply(a, a)
    return z


def recomputed(x, w):
    def block(x):
        h = ops.matmul(x, w)
        s = ops.sin(h)
        a = ops.exp(s)
        return a

    remat_block = keras.remat(block)
    a = remat_block(x)
    z = ops.multiply(a, a)
    return z


def run(forward):
    values = inputs()
    wanted = {"x": values["x"].requires_grad_()}
    outputs = forward(**values)
    loss = ops.sum(outputs)
    leaves = list(wanted.values())
    first = torch.autograd.grad(loss, leaves, create_graph=True)
    gradients = dict(zip(wanted, first))
    total = sum(ops.sum(gradient) for gradient in first)
    second = torch.autograd.grad(total, leaves, create_graph=True)
    total = sum(ops.sum(gradient) for gradient in second)
    last = torch.autograd.grad(total, leaves, allow_unused=True)
    again = dict(zip(wanted, last))
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
