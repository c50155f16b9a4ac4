"""With `use_reentrant=True`, a captured table gets no gradient if the only argument is integer."""

import torch
from torch.utils.checkpoint import checkpoint

i = torch.tensor([0, 1])
table = torch.ones(3, requires_grad=True)
y = checkpoint(lambda i: table[i].sin(), i, use_reentrant=True)
assert not y.requires_grad
