"""The table that a reentrant region captures is lost where its argument is integer."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = (
    "With use_reentrant=True the outputs ask for a gradient only if a tensor argument does; the"
)


def differs(changed: bool) -> bool:
    """Whether the output asks for no gradient; with the change, the table is an argument."""
    i = torch.tensor([0, 1])
    table = torch.ones(3, requires_grad=True)
    if changed:
        y = checkpoint(lambda i, table: table[i].sin(), i, table, use_reentrant=True)
    else:
        y = checkpoint(lambda i: table[i].sin(), i, use_reentrant=True)
    return not y.requires_grad
