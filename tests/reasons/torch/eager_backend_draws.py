"""A checkpoint that is compiled for the backend eager draws other numbers in the rerun."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "For the backend eager a checkpoint is a node of the graph"


def differs(changed: bool) -> bool:
    """Whether the masks differ; with the change, a compiler is behind that preserves them."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    x = torch.ones(100, requires_grad=True)

    def region(x):
        return torch.nn.functional.dropout(x.sin(), 0.5).exp()

    @torch.compile(backend="aot_eager" if changed else "eager")
    def run(x):
        return checkpoint(region, x, use_reentrant=False)

    y = run(x)
    y.sum().backward()
    return not torch.equal(y == 1, x.grad == 0)
