"""Each look at a tensor that a region saved (`grad_fn._saved_result`) runs the region again."""

import torch
from torch.utils.checkpoint import checkpoint


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return checkpoint(function, *args, use_reentrant=False)


def run(call):
    calls = []

    def region(x):
        calls.append("called")
        return torch.exp(torch.sin(x))

    result = call(region, torch.ones(3, requires_grad=True))
    for _ in range(2):
        assert result.grad_fn._saved_result is not None
    return calls
