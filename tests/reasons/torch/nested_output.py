"""A tensor in a tuple of a reentrant region's outputs is left out of the gradient."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "With use_reentrant=True only tensors at the top level of the outputs"


def differs(changed: bool) -> bool:
    """Whether its part is missing; with the change, it is at the top level."""
    x = torch.ones(3, requires_grad=True)
    if changed:
        a, b = checkpoint(lambda x: (x.sin(), x.cos()), x, use_reentrant=True)
    else:
        (a,), b = checkpoint(lambda x: ((x.sin(),), x.cos()), x, use_reentrant=True)
    (a + b).sum().backward()
    right = x.cos() - x.sin()
    return not torch.equal(x.grad, right)
