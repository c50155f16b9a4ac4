"""Passes gradients through tensors that the region has detached."""

import sys

import torch
import torch.utils.checkpoint
from torch.overrides import TorchFunctionMode

CAUGHT_BY = ("gradient", "structure/detached-output")


class Attached(TorchFunctionMode):
    def __init__(self, file):
        super().__init__()
        self.file = file

    def __torch_function__(self, func, types, args=(), kwargs=None):
        # What watches the region detaches too, and is none of ours.
        if func is torch.Tensor.detach and sys._getframe(1).f_code.co_filename == self.file:
            return args[0].view_as(args[0])
        return func(*args, **(kwargs or {}))


def checkpoint(function, *args, **options):
    def attached(*args, **kwargs):
        with Attached(function.__code__.co_filename):
            return function(*args, **kwargs)

    return torch.utils.checkpoint.checkpoint(attached, *args, use_reentrant=False, **options)
