"""With `use_reentrant=True`, a loss that the function keeps in a list has no gradient."""

import torch
from torch.utils.checkpoint import checkpoint

kept = []


def block(x, w):
    h = x * w
    kept.append(h * h)
    return torch.sin(h)


def gradient(run):
    kept.clear()
    x, w = torch.tensor([2.0]), torch.tensor([3.0], requires_grad=True)
    (run(block, x, w) + kept.pop()).backward()
    return w.grad.item()


plain = gradient(lambda function, *args: function(*args))
recomputed = gradient(lambda *args: checkpoint(*args, use_reentrant=True))
assert abs(plain - 25.92) < 0.01
assert abs(recomputed - 1.92) < 0.01
