"""Swaps the gradients of the first two arguments if they have the same shape."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "structure/two-outputs")


class Swap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a.view_as(a), b.view_as(b)

    @staticmethod
    def backward(ctx, a, b):
        return b, a


def checkpoint(function, *args, **options):
    if (
        len(args) > 1
        and all(isinstance(t, torch.Tensor) and t.requires_grad for t in args[:2])
        and args[0].shape == args[1].shape
    ):
        args = (*Swap.apply(*args[:2]), *args[2:])
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
