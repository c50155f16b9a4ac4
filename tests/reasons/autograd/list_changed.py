"""A further run finds what the first has put into a list that the region was given."""

import autograd.numpy as np
from autograd import checkpoint
from autograd.core import make_vjp

REASON = "The rerun is given the list itself, as the forward has left it"


def differs(changed: bool) -> bool:
    """Whether the gradient is of a longer list; with the change, the list is copied at each call."""

    def region(x, seen):
        if changed:
            seen = list(seen)
        seen.append(1)
        return np.exp(x * len(seen))

    backward, y = make_vjp(lambda x: checkpoint(region)(x, []), np.ones(3))
    return not np.allclose(backward(np.ones(3)), y)
