"""A function that computes something else in the rerun gets another gradient, without an error."""

import autograd.numpy as np
from autograd import checkpoint, grad

calls = []


def region(x):
    calls.append(x)
    return np.sin(x) if len(calls) == 1 else np.exp(x)


assert abs(float(grad(checkpoint(region))(2.0) - np.cos(2.0))) > 0.001
