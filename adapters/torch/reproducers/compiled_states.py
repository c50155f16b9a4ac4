"""A compiled checkpoint saves the random state once for each random operation."""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(100, requires_grad=True)


def twice(x):
    return torch.nn.functional.dropout(torch.nn.functional.dropout(x, 0.5).sin(), 0.5).sin()


def run(x):
    return checkpoint(twice, x, use_reentrant=False, preserve_rng_state=False)


saved = []


def pack(t):
    saved.append(t.dtype)
    return t


with torch.autograd.graph.saved_tensors_hooks(torch._dynamo.disable(pack), lambda t: t):
    torch.compile(run, backend="aot_eager")(x)
assert saved.count(torch.uint8) == 2
