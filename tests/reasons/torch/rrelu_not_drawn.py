"""A rerun ends before the slopes of a last rrelu are drawn."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "The rerun ends before the slopes are drawn"


def differs(changed: bool) -> bool:
    """Whether the rerun draws nothing; with the change, early_stop=False."""
    drawn = []

    def region(x):
        before = torch.get_rng_state()
        try:
            return torch.nn.functional.rrelu(x, training=True)
        finally:
            drawn.append(not torch.equal(before, torch.get_rng_state()))

    x = torch.full((1000,), -1.0, requires_grad=True)
    checkpoint(region, x, use_reentrant=False, early_stop=not changed).sum().backward()
    return drawn == [True, False]
