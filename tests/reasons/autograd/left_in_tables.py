"""A function that is made anew is never freed, and what it reads by closure neither."""

import gc
import weakref

import autograd.numpy as np
from autograd import checkpoint, core, grad, tracer

REASON = "checkpoint enters the function, and what it returns, into autograd's tables"


def differs(changed: bool) -> bool:
    """Whether an array lives on; with the change, the tables are cleared of what is new in them."""
    tables = (core.primitive_vjps, tracer.trace_primitives_map)
    before = [set(table) for table in tables]

    def step():
        w = np.ones(4)
        grad(lambda x: np.sum(checkpoint(lambda x: x * w)(x)))(np.ones(4))
        return weakref.ref(w)

    ref = step()
    if changed:
        for table, old in zip(tables, before, strict=True):
            [table.pop(key) for key in set(table) - old]
    gc.collect()
    return ref() is not None
