"""Under mixed precision, the rerun of a layer reads its variables in float32, and backward raises."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch

with keras.RematScope("full"):
    layer = keras.layers.Dense(2, dtype="mixed_bfloat16")
x = torch.ones(2, 3, requires_grad=True)
layer.build(x.shape)
y = layer(x)
try:
    y.sum().backward()
except torch.utils.checkpoint.CheckpointError as error:
    assert "different metadata" in str(error)
else:
    raise AssertionError("no error is raised")
