"""A reentrant region cannot take a gradient itself."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "With use_reentrant=True forward runs under no_grad, so that nothing is recorded"


def differs(changed: bool) -> bool:
    """Whether forward raises an error; with the change, use_reentrant is False."""

    def region(x):
        y = torch.exp(x)
        (slope,) = torch.autograd.grad(torch.sin(y).sum(), y, create_graph=True)
        return slope

    x = torch.ones(3, requires_grad=True)
    region(x).sum().backward()
    try:
        checkpoint(region, x, use_reentrant=changed is False).sum().backward()
    except RuntimeError as error:
        return "element 0 of tensors does not require grad" in str(error)
    return False
