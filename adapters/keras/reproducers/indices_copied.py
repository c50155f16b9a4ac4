"""`keras.ops.take` keeps a copy of int32 indices in int64 for its gradient, with the result."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch
from keras import ops

table = torch.ones(3, 4, requires_grad=True)
x = torch.ones(4, requires_grad=True)
indices = torch.tensor([0, 1], dtype=torch.int32)


def kept(transform):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        rows = ops.take(table, indices, axis=0)
    transform(lambda rows: ops.sin(x))(rows)
    return [t.dtype for t in saved]


assert torch.int64 in kept(lambda function: function)
assert torch.int64 in kept(keras.remat)
