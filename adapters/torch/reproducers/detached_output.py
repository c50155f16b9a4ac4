"""With `use_reentrant=True`, a detached output requires a gradient."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
_, detached = checkpoint(lambda x: (x.sin(), x.cos().detach()), x, use_reentrant=True)
assert detached.requires_grad
