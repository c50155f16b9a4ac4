"""A region that is compiled at a budget of 0 drops other elements in backward."""

import torch
import torch._functorch.config as config
from torch.utils.checkpoint import checkpoint

REASON = "With a budget below 1 the partitioner"


def differs(changed: bool) -> bool:
    """Whether the masks differ; with the change, the region is tagged by checkpoint."""
    torch._dynamo.reset()
    x = torch.ones(100, requires_grad=True)

    def region(x):
        return torch.nn.functional.dropout(x.sin(), 0.5).exp()

    @torch.compile(backend="aot_eager")
    def run(x):
        return checkpoint(region, x, use_reentrant=False) if changed else region(x)

    with config.patch(activation_memory_budget=0.0):
        y = run(x)
        y.sum().backward()
    return not torch.equal(y == 1, x.grad == 0)
