"""checkpoint does not put back the state of a generator that is not global."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "checkpoint puts the state of torch's global generators aside"


def differs(changed: bool) -> bool:
    """Whether the gradient is of other draws; with the change, the global generator draws."""
    x = torch.ones(100, requires_grad=True)
    generator = None if changed else torch.Generator()

    def region(x):
        return (x * torch.rand(100, generator=generator)).exp()

    y = checkpoint(region, x, use_reentrant=False)
    y.sum().backward()
    # y = exp(x n), so that its gradient is n y.
    return not torch.allclose(x.grad, y.log() * y)
