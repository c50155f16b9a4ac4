"""Under `torch.no_grad()`, the function does not run in the first context of `context_fn`."""

from contextlib import contextmanager, nullcontext

import torch
from torch.utils.checkpoint import checkpoint

inside = []


@contextmanager
def noting():
    inside.append(True)
    yield
    inside.pop()


def function(x):
    return 2 * x if inside else x


x = torch.ones(3)
for gradients, expected in ((True, 2.0), (False, 1.0)):
    with torch.set_grad_enabled(gradients):
        contexts = lambda: (noting(), nullcontext())  # noqa: E731
        y = checkpoint(function, x, use_reentrant=False, context_fn=contexts)
    assert y.max() == expected
