"""A captured tensor that the region writes over is changed in the rerun."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "A tensor that the region reads by closure"


def differs(changed: bool) -> bool:
    """Whether the gradient differs; with the change, the region writes to a copy."""
    x = torch.ones(3, requires_grad=True)
    c = torch.ones(3)

    def region(x):
        return ((c.clone() if changed else c).mul_(2) * x).exp()

    y = checkpoint(region, x, use_reentrant=False)
    y.sum().backward()
    return not torch.equal(x.grad, 2 * y)
