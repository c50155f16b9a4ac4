"""A reentrant region goes backward through the graph of a tensor that it captures."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "With use_reentrant=True a region's backward goes on into the graph"


def differs(changed: bool) -> bool:
    """Whether backward fails; with the change, the tensor is an argument of the region."""
    x = torch.ones(3, requires_grad=True)
    c = x.exp()
    if changed:
        y = checkpoint(lambda s, c: s * c, c.sin(), c, use_reentrant=True)
    else:
        y = checkpoint(lambda s: s * c, c.sin(), use_reentrant=True)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return "through the graph a second time" in str(error)
    return False
