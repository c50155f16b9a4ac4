"""torch.func.grad refuses a checkpoint that is not reentrant."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "torch.func.grad, vjp, jacrev and hessian refuse"


def differs(changed: bool) -> bool:
    """Whether the transform refuses it; with the change, it is jacfwd."""
    transform = torch.func.jacfwd if changed else torch.func.grad
    try:
        transform(lambda x: checkpoint(torch.sin, x, use_reentrant=False))(torch.tensor(1.0))
    except RuntimeError as error:
        return "saved tensor hooks" in str(error)
    return False
