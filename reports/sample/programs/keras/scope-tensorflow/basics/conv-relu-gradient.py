"""A recomputed convolution feeding a plain ReLU.

Case basics/conv-relu-gradient, variant keras/scope-tensorflow.
Source: mindspore.recompute, API page, example
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np
import tensorflow as tf
from keras import ops


def inputs():
    x = ops.convert_to_tensor(np.full((2, 2, 2, 2), 2.0), "float32")
    w = keras.Variable(np.full((2, 2, 2, 2), 1.0), dtype="float32")
    return {"x": x, "w": w}


def plain(x, w):
    class Conv(keras.layers.Layer):
        def __init__(self, w):
            super().__init__()
            self.w = w

        def call(self, x):
            y = ops.conv(
                x,
                ops.transpose(self.w, (2, 3, 1, 0)),
                padding="same",
                data_format="channels_first",
            )
            return y

    conv = Conv(w)
    y = conv(x)
    z = ops.relu(y)
    return z


def recomputed(x, w):
    class Conv(keras.layers.Layer):
        def __init__(self, w):
            super().__init__()
            self.w = w

        def call(self, x):
            y = ops.conv(
                x,
                ops.transpose(self.w, (2, 3, 1, 0)),
                padding="same",
                data_format="channels_first",
            )
            return y

    with keras.RematScope(mode="full"):
        conv = Conv(w)
    y = conv(x)
    z = ops.relu(y)
    return z


def run(forward):
    values = inputs()
    wanted = {"x": values["x"], "w": values["w"].value}
    with tf.GradientTape() as tape:
        tape.watch(wanted)
        outputs = forward(**values)
        loss = ops.sum(outputs)
    gradients = tape.gradient(loss, wanted)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
