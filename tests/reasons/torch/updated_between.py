"""A rerun reads parameters as they are after an update."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "The rerun reads the parameters as they are after"


def differs(changed: bool) -> bool:
    """Whether the gradient differs; with the change, the update is after backward."""
    x = torch.ones(3, requires_grad=True)
    w = torch.ones(3, requires_grad=True)
    y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=False)
    if not changed:
        w.data.mul_(2)
    y.sum().backward()
    # The gradient with respect to x is w y, and w was one.
    return not torch.equal(x.grad, y)
