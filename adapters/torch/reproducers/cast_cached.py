"""A nested autocast uses the casts of the outer one, but not in the recomputation, which raises."""

import torch
from torch.utils.checkpoint import CheckpointError, checkpoint

x = torch.ones(2, 2)
w = torch.ones(2, 2, requires_grad=True)


def function(x):
    with torch.autocast("cpu", dtype=torch.float16):
        return torch.sin(w @ w)


raised = False
with torch.autocast("cpu", dtype=torch.bfloat16):
    z = x @ w
    y = checkpoint(function, x, use_reentrant=False)
try:
    (y + z).sum().backward()
except CheckpointError:
    raised = True
assert raised
