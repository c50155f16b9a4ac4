"""With a kept output stays the graph that it came from, and that of the runs for the gradient."""

import gc

import autograd.numpy as np
from autograd import checkpoint, make_vjp
from autograd.core import VJPNode
from autograd.tracer import getval

REASON = "The graph that an output came from is there for as long as the output"


def nodes(block, changed):
    """How many nodes of graphs are there after backward, while the output is kept."""
    seen = []

    def loss_of(x):
        y = block(x)
        seen.append(getval(y) if changed else y)
        return np.sum(y)

    vjp, _ = make_vjp(loss_of)(np.ones(3))
    vjp(1.0)
    del vjp
    gc.collect()
    return sum(isinstance(thing, VJPNode) for thing in gc.get_objects())


def differs(changed: bool) -> bool:
    """Whether more is left with the output; with the change, its numbers alone are kept."""

    def block(x):
        return np.sin(np.sin(x))

    plain = nodes(block, changed)
    return nodes(checkpoint(block), changed) > plain
