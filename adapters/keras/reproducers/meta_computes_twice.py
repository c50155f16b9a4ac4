"""Mode `larger_than` calls the layer once more, and a cast inside it computes on the device again."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch
from keras import ops

devices = []


class Casting(keras.layers.Layer):
    def call(self, x):
        y = ops.cast(x, "float64")
        devices.append(y.device.type)
        return y


with keras.RematScope("larger_than", output_size_threshold=1):
    layer = Casting()
layer(torch.ones(4))
assert len(devices) == 2
assert devices == ["cpu", "cpu"]
