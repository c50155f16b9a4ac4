"""A reentrant region from dict to dict is outside the graph."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "With use_reentrant=True only tensors at the top level of arguments and outputs"


def differs(changed: bool) -> bool:
    """Whether the output asks for no gradient; with the change, there are no dicts."""
    x = torch.ones(3, requires_grad=True)
    if changed:
        y = checkpoint(torch.sin, x, use_reentrant=True)
    else:
        y = checkpoint(lambda d: {"y": d["x"].sin()}, {"x": x}, use_reentrant=True)["y"]
    return not y.requires_grad
