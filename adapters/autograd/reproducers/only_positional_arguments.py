"""A tensor read by closure or as a keyword argument gets a gradient of zero."""

import autograd.numpy as np
from autograd import checkpoint, grad
from autograd.tracer import getval


def by_closure(x, w):
    return checkpoint(lambda x: np.sin(x * w))(x)


def by_keyword(x, w):
    return checkpoint(lambda x, w: np.sin(x * w))(x, w=w)


for loss in (by_closure, by_keyword):
    _, of_w = getval(grad(loss, (0, 1))(2.0, 3.0))
    assert of_w == 0
