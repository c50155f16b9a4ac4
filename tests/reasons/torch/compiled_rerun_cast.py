"""The rerun in a compiled backward is cast by the autocast that backward is called under."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "A compiled backward runs its operations under the autocast"


def differs(changed: bool) -> bool:
    """Whether the gradient reads cast values; with the change, nothing is compiled."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    a, w = torch.randn(8, 16), torch.randn(16, 16)
    x = torch.ones((), requires_grad=True)

    def run(x):
        # The gradient of x is the sum of a @ w, which is made again: no other product is in backward.
        return checkpoint(lambda x: (x * (x.detach() * a @ w)).sum(), x, use_reentrant=False)

    y = run(x) if changed else torch.compile(run, backend="aot_eager")(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y.backward()
    return abs(float(x.grad - (a @ w).sum())) > 1e-3
