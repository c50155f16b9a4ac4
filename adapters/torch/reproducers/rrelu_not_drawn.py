"""With early stop, the rerun ends before a last rrelu draws its slopes."""

import torch
from torch.utils.checkpoint import checkpoint

drawn = []


def region(x):
    before = torch.get_rng_state()
    try:
        return torch.nn.functional.rrelu(x, training=True)
    finally:
        drawn.append(not torch.equal(before, torch.get_rng_state()))


x = torch.full((1000,), -1.0, requires_grad=True)
checkpoint(region, x, use_reentrant=False, early_stop=True).sum().backward()
assert drawn == [True, False]
