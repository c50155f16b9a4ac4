"""With `use_reentrant=True`, a named tuple comes back as a plain tuple."""

from collections import namedtuple

import torch
from torch.utils.checkpoint import checkpoint

Fields = namedtuple("Fields", ["hidden", "context"])
x = torch.ones(3, requires_grad=True)
given = checkpoint(lambda x: Fields(x.sin(), x.cos()), x, use_reentrant=True)
assert type(given) is tuple
