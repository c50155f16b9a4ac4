"""A tensor that was saved and is then written over is handed out changed by the rerun's hooks."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "What a rerun has saved is handed out through hooks"


def region(x):
    h = 2 * x
    return torch.sin(h) * torch.exp(h.add_(0.5))


def differs(changed: bool) -> bool:
    """Whether the gradient is silently another one; with the change, nothing goes through hooks."""
    x = torch.ones(3, requires_grad=True)
    try:
        checkpoint(region, x, use_reentrant=changed).sum().backward()
    except RuntimeError:  # autograd has noticed
        return False
    h = 2 * torch.ones(3)
    right = 2 * (torch.cos(h) + torch.sin(h)) * torch.exp(h + 0.5)
    return not torch.allclose(x.grad, right)
