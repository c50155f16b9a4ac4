"""If a policy saves a random operation, later ones draw other numbers in the recomputation."""

from functools import partial

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

torch.manual_seed(0)
x = torch.ones(100, requires_grad=True)
kept = [torch.ops.aten.rand.default]


def region(x):
    noise = torch.rand(100)
    return torch.nn.functional.dropout((x * (1 + noise)).sin(), 0.5).exp()


context = partial(create_selective_checkpoint_contexts, kept)
y = checkpoint(region, x, use_reentrant=False, context_fn=context)
y.sum().backward()
assert not torch.equal(y == 1, x.grad == 0)
