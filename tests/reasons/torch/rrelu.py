"""The gradient of a last rrelu is made of memory that nothing has written."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "rrelu saves its slopes before"


def differs(changed: bool) -> bool:
    """Whether the gradient is not the slopes; with the change, early_stop=False."""
    torch.manual_seed(0)
    x = torch.full((1000,), -1.0, requires_grad=True)
    y = checkpoint(
        lambda x: torch.nn.functional.rrelu(x, training=True),
        x,
        use_reentrant=False,
        early_stop=not changed,
    )
    # Else the memory may by chance be that of the forward's slopes, with these still in it.
    others = [torch.full((1000,), 7.0) for _ in range(100)]
    del others
    y.sum().backward()
    return not torch.equal(x.grad, -y)
