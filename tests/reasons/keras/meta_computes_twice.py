"""Mode `larger_than` computes a cast of the layer's argument on the device, beside the layer's call."""

import keras
import torch
from keras import ops

ENVIRONMENT = {"KERAS_BACKEND": "torch"}
REASON = (
    "Before each call, mode `larger_than` calls the layer for the shape of its output on the device"
)


def differs(changed: bool) -> bool:
    """Whether two casts ran on the CPU; with the change, Keras has moved what is cast."""
    devices = []

    class Casting(keras.layers.Layer):
        def call(self, x):
            y = ops.cast(ops.sin(x) if changed else x, "float64")
            devices.append(y.device.type)
            return y

    with keras.RematScope("larger_than", output_size_threshold=1):
        layer = Casting()
    layer(torch.ones(4))
    assert len(devices) == 2
    return devices == ["cpu", "cpu"]
