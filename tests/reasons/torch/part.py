"""backward(inputs=[...]) does not see a parameter that a reentrant region captures."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "backward(inputs=[...]) goes only where"


def differs(changed: bool) -> bool:
    """Whether it gets no gradient, in silence; with the change, inputs is not given."""
    x = torch.ones(3, requires_grad=True)
    w = torch.ones(3, requires_grad=True)
    y = checkpoint(lambda x: x * w, x, use_reentrant=True)
    y.sum().backward(inputs=None if changed else [w])
    return w.grad is None
