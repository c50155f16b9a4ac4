"""What the function computes is kept until backward, once for each differentiated argument."""

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
kept = sum(ref() is not None for ref in made)
vjp(x)
assert len(made) == 3
assert kept == 2
