"""A region that computes something else in the rerun has another gradient, without an error."""

import autograd.numpy as np
from autograd import checkpoint, grad

REASON = "Nothing compares what the rerun computes"


def differs(changed: bool) -> bool:
    """Whether the gradient is another one; with the change, the rerun does what the forward did."""
    calls = []

    def region(x):
        calls.append(x)
        return np.sin(x) if changed or len(calls) == 1 else np.exp(x)

    return abs(float(grad(checkpoint(region))(2.0) - np.cos(2.0))) > 1e-3
