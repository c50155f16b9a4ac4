"""A rerun finds what the forward has put into a list that the region was given."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "The rerun is given the list itself, as the forward has left it"


def differs(changed: bool) -> bool:
    """Whether the gradient is of a longer list; with the change, the list is copied at each call."""

    def region(x, seen):
        if changed:
            seen = list(seen)
        seen.append(1)
        return (x * len(seen)).exp()

    def wrong(use_reentrant):
        x = torch.ones(3, requires_grad=True)
        y = checkpoint(region, x, [], use_reentrant=use_reentrant)
        y.sum().backward()
        return not torch.equal(x.grad, y)

    return wrong(use_reentrant=True) and wrong(use_reentrant=False)
