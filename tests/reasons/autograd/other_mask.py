"""The gradient of a region has other random numbers than its value."""

import autograd.numpy as np
import numpy
from autograd import checkpoint, make_vjp

REASON = "The function is called again for its gradient"


def differs(changed: bool) -> bool:
    """Whether the gradient has another mask; with the change, the function sets the generator back."""
    generator = numpy.random.default_rng(0)
    state = generator.bit_generator.state

    def region(x):
        if changed:
            generator.bit_generator.state = state
        return x * generator.integers(0, 2, 64)

    vjp, value = make_vjp(checkpoint(region))(np.ones(64))
    return not numpy.array_equal(vjp(np.ones(64)), value)
