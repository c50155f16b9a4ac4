"""`checkpoint` takes the keyword `debug` for itself, so the function runs with its default."""

import torch
from torch.utils.checkpoint import checkpoint


def block(x, debug=False):
    return torch.sin(x) if debug else torch.cos(x)


x = torch.ones(3, requires_grad=True)
plain = block(x, debug=True)
recomputed = checkpoint(block, x, debug=True, use_reentrant=False)
assert torch.equal(recomputed, torch.cos(x))
assert not torch.equal(recomputed, plain)
