"""What a region is given by name gets a gradient of zero."""

import autograd.numpy as np
from autograd import checkpoint, grad
from autograd.tracer import getval

REASON = "checkpoint makes a primitive of the function"


def differs(changed: bool) -> bool:
    """Whether the gradient is zero; with the change, it is given by position."""

    def loss(x, y):
        region = checkpoint(lambda x, y: np.sin(x * y))
        return region(x, y) if changed else region(x, y=y)

    return float(getval(getval(grad(loss, (0, 1))(2.0, 3.0))[1])) == 0
