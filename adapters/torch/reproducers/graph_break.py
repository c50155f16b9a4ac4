"""Compiled, the rerun draws other numbers from a `torch.Generator` than the forward run."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(100, requires_grad=True)
generator = torch.Generator()


def region(x):
    return (x * torch.rand(100, generator=generator)).exp()


@torch.compile(backend="aot_eager")
def run(x):
    return checkpoint(region, x, use_reentrant=False)


y = run(x)
y.sum().backward()
assert not torch.allclose(x.grad, y.log() * y, atol=1e-05)
