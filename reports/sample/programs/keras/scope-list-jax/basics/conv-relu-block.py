"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant keras/scope-list-jax.
Source: the family of programs that every framework's page on recompute opens with
"""

import os

os.environ["KERAS_BACKEND"] = "jax"
import jax
import keras
import numpy as np
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(rng.standard_normal((2, 3, 6, 6)), "float32")
    w1 = keras.Variable(0.3 * rng.standard_normal((4, 3, 3, 3)), dtype="float32")
    w2 = keras.Variable(0.3 * rng.standard_normal((2, 4, 3, 3)), dtype="float32")
    return {"x": x, "w1": w1, "w2": w2}


class Block(keras.layers.Layer):
    def __init__(self, w1, w2):
        super().__init__(name="block")
        self.w1 = w1
        self.w2 = w2

    def call(self, x):
        c = ops.conv(
            x,
            ops.transpose(self.w1, (2, 3, 1, 0)),
            padding="same",
            data_format="channels_first",
        )
        r = ops.relu(c)
        return ops.conv(
            r, ops.transpose(self.w2, (2, 3, 1, 0)), data_format="channels_first"
        )


def plain(x, w1, w2):
    block = Block(w1, w2)
    y = block(x)
    p = ops.max_pool(y, 2, 2, data_format="channels_first")
    return ops.average_pool(p, 2, 2, data_format="channels_first")


def recomputed(x, w1, w2):
    with keras.RematScope(mode="list_of_layers", layer_names=["block"]):
        block = Block(w1, w2)
    y = block(x)
    p = ops.max_pool(y, 2, 2, data_format="channels_first")
    return ops.average_pool(p, 2, 2, data_format="channels_first")


def run(forward):
    values = inputs()
    wanted = {"x": values["x"], "w1": values["w1"].value, "w2": values["w2"].value}

    def loss_of(wanted):
        with keras.StatelessScope(
            [(values["w1"], wanted["w1"]), (values["w2"], wanted["w2"])]
        ):
            outputs = forward(**values | {"x": wanted["x"]})
            loss = ops.sum(outputs)
        return loss, outputs

    loss, vjp, outputs = jax.vjp(loss_of, wanted, has_aux=True)
    (gradients,) = vjp(ops.ones_like(loss))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
