"""A checkpointed function that is defined in each step is never freed, nor are its captured arrays."""

import gc
import weakref

import autograd.numpy as np
from autograd import checkpoint, grad


def step():
    w = np.ones(4)
    grad(lambda x: np.sum(checkpoint(lambda x: x * w)(x)))(np.ones(4))
    return weakref.ref(w)


ref = step()
gc.collect()
assert ref() is not None
