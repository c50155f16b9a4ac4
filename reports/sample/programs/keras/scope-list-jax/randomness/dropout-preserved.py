"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant keras/scope-list-jax.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import os

os.environ["KERAS_BACKEND"] = "jax"
import jax
import keras
import numpy as np
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(rng.standard_normal((8, 16)), "float32")
    w1 = keras.Variable(0.3 * rng.standard_normal((16, 16)), dtype="float32")
    w2 = keras.Variable(0.3 * rng.standard_normal((16, 4)), dtype="float32")
    return {"x": x, "w1": w1, "w2": w2}


class Block(keras.layers.Layer):
    def __init__(self, w1, w2):
        super().__init__(name="block")
        self.w1 = w1
        self.w2 = w2

    def call(self, x):
        h = ops.matmul(x, self.w1)
        d = keras.random.dropout(h, 0.5)
        y = ops.matmul(d, self.w2)
        return y, d


def plain(x, w1, w2):
    block = Block(w1, w2)
    y, d = block(x)
    z = ops.multiply(y, y)
    return z, d


def recomputed(x, w1, w2):
    with keras.RematScope(mode="list_of_layers", layer_names=["block"]):
        block = Block(w1, w2)
    y, d = block(x)
    z = ops.multiply(y, y)
    return z, d


def run(forward):
    keras.utils.set_random_seed(0)
    values = inputs()
    wanted = {"x": values["x"], "w1": values["w1"].value, "w2": values["w2"].value}

    def loss_of(wanted):
        with keras.StatelessScope(
            [(values["w1"], wanted["w1"]), (values["w2"], wanted["w2"])]
        ):
            outputs = forward(**values | {"x": wanted["x"]})
            loss = ops.sum(outputs[0])
        return loss, outputs

    loss, vjp, outputs = jax.vjp(loss_of, wanted, has_aux=True)
    (gradients,) = vjp(ops.ones_like(loss))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
