"""An inner recomputed function keeps a copy of the random state until backward."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import gc

import keras
import torch


def states() -> int:
    """How many copies of the CPU generator's state are alive."""
    gc.collect()
    shape = torch.get_rng_state().shape
    return sum(type(o) is torch.Tensor and o.shape == shape for o in gc.get_objects())


before = states()
inner = keras.remat(torch.sin)
x = torch.ones(4, requires_grad=True)
y = keras.remat(lambda x: inner(inner(x)))(x)
kept = states() - before
y.sum().backward()
assert kept > 1
