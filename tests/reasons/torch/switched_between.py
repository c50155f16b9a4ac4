"""A rerun reads a switch as it is when backward runs."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "The rerun calls the function anew, and what the function reads from outside"


def differs(changed: bool) -> bool:
    """Whether dropout is left out of the gradient; with the change, eval() comes after backward."""
    torch.manual_seed(0)
    layer = torch.nn.Dropout(0.5)
    x = torch.ones(100, requires_grad=True)
    y = checkpoint(lambda x: layer(x.exp()), x, use_reentrant=True)
    if not changed:
        layer.eval()
    y.sum().backward()
    # The gradient of a dropped exponential is itself.
    return not torch.equal(x.grad, y)
