"""With `use_reentrant=True`, a function from dict to dict is outside of the graph."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
y = checkpoint(lambda d: {"y": d["x"].sin()}, {"x": x}, use_reentrant=True)["y"]
assert not y.requires_grad
