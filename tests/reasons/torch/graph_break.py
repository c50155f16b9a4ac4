"""A compiled checkpoint that draws from a torch.Generator runs eagerly."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "Dynamo does not take such a generator"


def differs(changed: bool) -> bool:
    """Whether the gradient is of other draws; with the change, the global generator draws."""
    torch._dynamo.reset()
    x = torch.ones(100, requires_grad=True)
    generator = None if changed else torch.Generator()

    def region(x):
        return (x * torch.rand(100, generator=generator)).exp()

    @torch.compile(backend="aot_eager")
    def run(x):
        return checkpoint(region, x, use_reentrant=False)

    y = run(x)
    y.sum().backward()
    return not torch.allclose(x.grad, y.log() * y, atol=1e-5)
