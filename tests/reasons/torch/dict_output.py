"""A reentrant region's outputs in a dict are outside the graph."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "With use_reentrant=True tensors inside a dict are cut off"


def differs(changed: bool) -> bool:
    """Whether the output asks for no gradient; with the change, it is not in a dict."""
    x = torch.ones(3, requires_grad=True)
    if changed:
        y = checkpoint(torch.sin, x, use_reentrant=True)
    else:
        y = checkpoint(lambda x: {"y": x.sin()}, x, use_reentrant=True)["y"]
    return not y.requires_grad
