"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant keras/scope-tensorflow.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np
import tensorflow as tf
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(0.5 * rng.standard_normal((3, 4)), "float32")
    w1 = keras.Variable(0.5 * rng.standard_normal((4, 4)), dtype="float32")
    w2 = keras.Variable(0.5 * rng.standard_normal((4, 2)), dtype="float32")
    return {"x": x, "w1": w1, "w2": w2}


class Block(keras.layers.Layer):
    def __init__(self, w1):
        super().__init__()
        self.w1 = w1

    def call(self, x):
        h = ops.matmul(x, self.w1)
        s = ops.sin(h)
        return ops.exp(s)


def plain(x, w1, w2):
    block = Block(w1)
    a = block(x)
    y = ops.matmul(a, w2)
    return ops.multiply(y, y)


def recomputed(x, w1, w2):
    with keras.RematScope(mode="full"):
        block = Block(w1)
    a = block(x)
    y = ops.matmul(a, w2)
    return ops.multiply(y, y)


def run(forward):
    values = inputs()
    wanted = {"w1": values["w1"].value, "w2": values["w2"].value}
    with tf.GradientTape() as tape:
        tape.watch(wanted)
        outputs = forward(**values)
        loss = ops.sum(outputs)
    gradients = tape.gradient(loss, wanted)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
