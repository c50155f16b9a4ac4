"""A compiled checkpoint does not enter the contexts of `context_fn`."""

import torch
from torch.utils.checkpoint import checkpoint

inside = []


class Doubled:
    def __enter__(self):
        inside.append("doubled")

    def __exit__(self, *error):
        inside.pop()


def contexts():
    return Doubled(), Doubled()


x = torch.ones(3, requires_grad=True)


def region(x):
    return torch.sin(x) * 2 if inside else torch.sin(x)


@torch.compile(backend="eager")
def run(x):
    return checkpoint(region, x, use_reentrant=False, context_fn=contexts)


with Doubled():
    wanted = region(x.detach())
assert not torch.equal(run(x).detach(), wanted)
