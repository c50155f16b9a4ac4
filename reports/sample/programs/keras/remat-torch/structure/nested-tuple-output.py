"""A region that returns a tuple inside a tuple.

Case structure/nested-tuple-output, variant keras/remat-torch.
Source: pytorch issue 124725; Paddle's recompute with nested outputs
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(0.5 * rng.standard_normal((3, 4)), "float32")
    w = keras.Variable(0.5 * rng.standard_normal((4, 4)), dtype="float32")
    return {"x": x, "w": w}


def plain(x, w):
    def block(x):
        h = ops.matmul(x, w)
        a = ops.sin(h)
        b = ops.tanh(h)
        c = ops.exp(a)
        return a, (b, c)

    a, (b, c) = block(x)
    ab = ops.multiply(a, b)
    z = ops.multiply(ab, c)
    return z, (b, c)


def recomputed(x, w):
    def block(x):
        h = ops.matmul(x, w)
        a = ops.sin(h)
        b = ops.tanh(h)
        c = ops.exp(a)
        return a, (b, c)

    remat_block = keras.remat(block)
    a, (b, c) = remat_block(x)
    ab = ops.multiply(a, b)
    z = ops.multiply(ab, c)
    return z, (b, c)


def run(forward):
    values = inputs()
    wanted = {"x": values["x"].requires_grad_(), "w": values["w"].value}
    outputs = forward(**values)
    loss = ops.sum(outputs[0])
    loss.backward()
    gradients = {name: value.grad for name, value in wanted.items()}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
