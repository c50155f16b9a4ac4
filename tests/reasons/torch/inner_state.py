"""A region inside another one keeps a copy of the generator's state."""

import weakref

import torch
from torch.utils.checkpoint import checkpoint

REASON = "A region inside another one keeps a copy"


def differs(changed: bool) -> bool:
    """Whether two copies are alive; with the change, the inner region keeps none."""
    x = torch.ones(3, requires_grad=True)
    real, copies = torch.get_rng_state, []

    def spied():
        state = real()
        copies.append(weakref.ref(state))
        return state

    def outer(x):
        a = checkpoint(torch.sin, x, use_reentrant=False, preserve_rng_state=not changed)
        return a.sin()

    torch.get_rng_state = spied
    try:
        y = checkpoint(outer, x, use_reentrant=False)
        alive = sum(copy() is not None for copy in copies)
    finally:
        torch.get_rng_state = real
    return y.requires_grad and alive == 2
