"""The random state of a reentrant region stays when it lies in one that is not."""

import weakref

import torch
from torch.utils.checkpoint import checkpoint

REASON = "A reentrant region keeps its copy of the generator's state"


def differs(changed: bool) -> bool:
    """Whether two copies are alive; with the change, the region around it is reentrant, too."""
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
        y = checkpoint(outer, x, use_reentrant=changed)
        alive = sum(copy() is not None for copy in copies)
    finally:
        torch.get_rng_state = real
    return y.requires_grad and alive == 2
