"""A compiled recomputation uses the autocast state of the backward call, not that of forward."""

import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
a, w = torch.randn(8, 16), torch.randn(16, 16)
x = torch.ones((), requires_grad=True)


def run(x):
    # The gradient of x is the sum of a @ w. This product is recomputed and is the only one in
    # backward.
    return checkpoint(lambda x: (x * (x.detach() * a @ w)).sum(), x, use_reentrant=False)


y = torch.compile(run, backend="aot_eager")(x)
with torch.autocast("cpu", dtype=torch.bfloat16):
    y.backward()
assert abs(float(x.grad - (a @ w).sum())) > 0.001
