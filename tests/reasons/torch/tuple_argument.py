"""A reentrant region's arguments in a tuple are not looked at."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "With use_reentrant=True only tensors at the top level of the arguments"


def differs(changed: bool) -> bool:
    """Whether the output asks for no gradient; with the change, one is at the top level."""
    x = torch.ones(3, requires_grad=True)
    if changed:
        y = checkpoint(lambda pair, x: pair[0] * pair[1] * x, (x, x), x, use_reentrant=True)
    else:
        y = checkpoint(lambda pair: pair[0] * pair[1], (x, x), use_reentrant=True)
    return not y.requires_grad
