"""A region whose body goes by whether a gradient can reach what it computes."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "With use_reentrant=True the forward runs under no_grad"


def differs(changed: bool) -> bool:
    """Whether it computes something else; with the change, the body switches gradients on."""

    def block(x):
        with torch.set_grad_enabled(changed or torch.is_grad_enabled()):
            h = x * 2
            return h.sin() if h.requires_grad else h.cos()

    x = torch.ones(3, requires_grad=True)
    return not torch.equal(checkpoint(block, x, use_reentrant=True), block(x))
