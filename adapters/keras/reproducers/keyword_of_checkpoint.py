"""On the torch backend, `keras.remat` loses the keyword argument `debug` of the function."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch
from keras import ops


def block(x, debug=False):
    return ops.sin(x) if debug else ops.cos(x)


x = torch.ones(3, requires_grad=True)
plain = block(x, debug=True)
recomputed = keras.remat(block)(x, debug=True)
assert torch.equal(recomputed, torch.cos(x))
assert not torch.equal(recomputed, plain)
