"""A reentrant checkpoint inside a non-reentrant one keeps its random state until backward."""

import weakref

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
real, copies = torch.get_rng_state, []


def spied():
    state = real()
    copies.append(weakref.ref(state))
    return state


def outer(x):
    return checkpoint(torch.sin, x, use_reentrant=True).sin()


torch.get_rng_state = spied
try:
    y = checkpoint(outer, x, use_reentrant=False)
    alive = sum(copy() is not None for copy in copies)
finally:
    torch.get_rng_state = real
assert y.requires_grad
assert alive == 2
