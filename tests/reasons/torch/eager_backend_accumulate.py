"""A tensor that a compiled region adds to is taken for one of its arguments."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "Dynamo hands what a region captures over to it"


def differs(changed: bool) -> bool:
    """Whether backward fails; with the change, the program is not compiled."""
    torch._dynamo.reset()
    x, total = torch.ones(3, requires_grad=True), torch.zeros(3)

    def region(x):
        with torch.no_grad():
            total.add_(x)
        return torch.sin(x)

    def run(x):
        return checkpoint(region, x, use_reentrant=False)

    try:
        (run if changed else torch.compile(run, backend="eager"))(x).sum().backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return False
