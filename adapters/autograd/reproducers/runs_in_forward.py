"""A checkpointed function runs again in forward, once for each differentiated argument."""

import autograd.numpy as np
from autograd import checkpoint, make_vjp


def calls(arguments: int, how) -> tuple[int, int]:
    """How often the function runs in forward and in backward."""
    made = []

    def region(*values):
        made.append(values)
        return np.sin(sum(values))

    vjp, _ = make_vjp(lambda values: how(region)(*values))([1.0] * arguments)
    before = len(made)
    vjp(1.0)
    return before, len(made) - before


found = [calls(n, checkpoint) for n in (1, 3)]
assert found == [(2, 0), (4, 0)]
