"""What a region reads by closure gets a gradient of zero."""

import autograd.numpy as np
from autograd import checkpoint, grad
from autograd.tracer import getval

REASON = "checkpoint differentiates with respect to the positional arguments"


def differs(changed: bool) -> bool:
    """Whether the gradient is zero; with the change, no positional argument is differentiated."""

    def loss(x, w):
        return checkpoint(lambda x: np.sin(x * w))(x)

    if changed:
        return float(grad(loss, 1)(2.0, 3.0)) == 0
    return float(getval(getval(grad(loss, (0, 1))(2.0, 3.0))[1])) == 0
