"""A checkpointed function runs again in forward, once per argument, and all results are kept."""

import weakref

import autograd.numpy as np
from autograd import checkpoint, make_vjp
from autograd.tracer import getval

made = []


def region(x, w):
    y = np.exp(x * w)
    made.append(weakref.ref(getval(y)))
    return np.sin(y)


x = np.ones(4)
vjp, _ = make_vjp(lambda values: checkpoint(region)(*values))((x, x))
in_forward, kept = len(made), sum(ref() is not None for ref in made)
vjp(x)
assert (in_forward, kept) == (3, 2)
assert len(made) == in_forward
