"""Returns `None` for gradients that are zero."""

import torch
import torch.utils.checkpoint
from torch.utils._pytree import tree_map_only

CAUGHT_BY = ("gradient", "captures/parameter-of-zero-gradient")


class Passed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        return gradient if gradient.any() else None


def checkpoint(function, *args, **options):
    args = tree_map_only(torch.Tensor, Passed.apply, args)
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
