"""The outputs of a reentrant region with a frozen argument are all that the loss has."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "As in captures/frozen-input"


def differs(changed: bool) -> bool:
    """Whether backward has nothing to start from; with the change, the loss has another term."""
    w = torch.ones(3, requires_grad=True)
    loss = checkpoint(lambda x: x * w, torch.ones(3), use_reentrant=True).sum()
    if changed:
        loss = loss + w.sum()
    try:
        loss.backward()
    except RuntimeError as error:
        return "does not require grad" in str(error)
    return False
