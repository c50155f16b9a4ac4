"""A checkpoint inside vmap cannot run its region again after the map."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "The forward pass runs, inside torch.func.vmap"


def differs(changed: bool) -> bool:
    """Whether backward fails; with the change, what the region is given is not mapped."""
    x = torch.ones(3, requires_grad=True)

    def mapped(row):
        return checkpoint(torch.sin, x if changed else row, use_reentrant=False) * row

    y = torch.func.vmap(mapped)(x)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return "escaped from inside a function being vmapped" in str(error)
    return False
