"""A rerun that leaves out a kept draw has what draws after it draw other numbers."""

from functools import partial

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

REASON = "A rerun hands out what the policy has kept of an operation that draws"


def differs(changed: bool) -> bool:
    """Whether the masks differ; with the change, the draw before the dropout is not kept."""
    torch.manual_seed(0)
    x = torch.ones(100, requires_grad=True)
    kept = [] if changed else [torch.ops.aten.rand.default]

    def region(x):
        noise = torch.rand(100)
        return torch.nn.functional.dropout((x * (1 + noise)).sin(), 0.5).exp()

    context = partial(create_selective_checkpoint_contexts, kept)
    y = checkpoint(region, x, use_reentrant=False, context_fn=context)
    y.sum().backward()
    return not torch.equal(y == 1, x.grad == 0)
