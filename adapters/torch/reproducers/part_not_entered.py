"""With `use_reentrant=True`, `backward(inputs=[w])` does not run the function again."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
w = torch.ones(3, requires_grad=True)
runs = []


def region(x):
    runs.append(1)
    return x * w


y = checkpoint(region, x, use_reentrant=True)
y.sum().backward(inputs=[w])
assert len(runs) == 1
