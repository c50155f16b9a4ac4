"""An output that is kept alive keeps the graphs of forward and of the reruns alive."""

import gc

import autograd.numpy as np
from autograd import checkpoint, make_vjp
from autograd.core import VJPNode


def nodes(block):
    """How many nodes of graphs are there after backward, while the output is kept."""
    seen = []

    def loss_of(x):
        y = block(x)
        seen.append(y)
        return np.sum(y)

    vjp, _ = make_vjp(loss_of)(np.ones(3))
    vjp(1.0)
    del vjp
    gc.collect()
    return sum(isinstance(thing, VJPNode) for thing in gc.get_objects())


def block(x):
    return np.sin(np.sin(x))


plain = nodes(block)
assert nodes(checkpoint(block)) > plain
