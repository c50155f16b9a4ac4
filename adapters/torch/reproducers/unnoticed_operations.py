"""With early stop, a rerun that would run other operations raises no error."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
runs = []


def region(x):
    runs.append(1)
    return x.sin().sin() if len(runs) == 1 else x.sin().sin().sin()


y = checkpoint(region, x, use_reentrant=False, early_stop=True)
# Another operation should run than in forward. This raises no error.
y.sum().backward()
assert len(runs) == 2
