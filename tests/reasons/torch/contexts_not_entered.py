"""Neither a compiled region nor its rerun runs in the contexts that it is given."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "Dynamo traces a region outside of the contexts that its context_fn gives"

inside = []


class Doubled:
    def __enter__(self):
        inside.append("doubled")

    def __exit__(self, *error):
        inside.pop()


def contexts():
    return Doubled(), Doubled()


def differs(changed: bool) -> bool:
    """Whether the region computes something else than in its contexts; with the change, not compiled."""
    torch._dynamo.reset()
    x = torch.ones(3, requires_grad=True)

    def region(x):
        return torch.sin(x) * 2 if inside else torch.sin(x)

    @torch.compile(backend="eager", disable=changed)
    def run(x):
        return checkpoint(region, x, use_reentrant=False, context_fn=contexts)

    with Doubled():
        wanted = region(x.detach())
    return not torch.equal(run(x).detach(), wanted)
