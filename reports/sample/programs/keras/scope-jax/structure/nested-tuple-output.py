"""A region that returns a tuple inside a tuple.

Case structure/nested-tuple-output, variant keras/scope-jax.
Source: pytorch issue 124725; Paddle's recompute with nested outputs
"""

import os

os.environ["KERAS_BACKEND"] = "jax"
import jax
import keras
import numpy as np
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(0.5 * rng.standard_normal((3, 4)), "float32")
    w = keras.Variable(0.5 * rng.standard_normal((4, 4)), dtype="float32")
    return {"x": x, "w": w}


class Block(keras.layers.Layer):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def call(self, x):
        h = ops.matmul(x, self.w)
        a = ops.sin(h)
        b = ops.tanh(h)
        c = ops.exp(a)
        return a, (b, c)


def plain(x, w):
    block = Block(w)
    a, (b, c) = block(x)
    ab = ops.multiply(a, b)
    z = ops.multiply(ab, c)
    return z, (b, c)


def recomputed(x, w):
    with keras.RematScope(mode="full"):
        block = Block(w)
    a, (b, c) = block(x)
    ab = ops.multiply(a, b)
    z = ops.multiply(ab, c)
    return z, (b, c)


def run(forward):
    values = inputs()
    wanted = {"x": values["x"], "w": values["w"].value}

    def loss_of(wanted):
        with keras.StatelessScope([(values["w"], wanted["w"])]):
            outputs = forward(**values | {"x": wanted["x"]})
            loss = ops.sum(outputs[0])
        return loss, outputs

    loss, vjp, outputs = jax.vjp(loss_of, wanted, has_aux=True)
    (gradients,) = vjp(ops.ones_like(loss))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
