"""An inner recomputed function keeps what it captures, and the random state, until backward."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import gc
import weakref

import keras
import torch

made = []


def states() -> int:
    """How many copies of the CPU generator's state are alive."""
    gc.collect()
    shape = torch.get_rng_state().shape
    return sum(type(o) is torch.Tensor and o.shape == shape for o in gc.get_objects())


def outer(x):
    y = torch.sin(x)
    made.append(weakref.ref(y))
    inner = keras.remat(lambda x: torch.exp(x * y))
    return inner(inner(x))


before = states()
x = torch.ones(4, requires_grad=True)
z = keras.remat(outer)(x)
copies, captured = states() - before, made[0]() is not None
z.sum().backward()
assert copies > 1
assert captured
