"""Reads an argument in the order of its memory when the function runs again, whatever its strides."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "arguments/every-second-column")


def in_memory_order(value):
    if not isinstance(value, torch.Tensor) or value.is_contiguous():
        return value
    behind = value.untyped_storage().size() // value.itemsize - value.storage_offset()
    if behind < value.numel():
        return value
    strides = torch.empty(value.shape).stride()
    wrong = value.detach().as_strided(value.shape, strides, value.storage_offset())
    return value + (wrong - value).detach() if value.is_floating_point() else wrong


def checkpoint(function, *args, **options):
    calls = []

    def run(*given, **named):
        calls.append(1)
        given = map(in_memory_order, given) if len(calls) > 1 else given
        return function(*given, **named)

    return torch.utils.checkpoint.checkpoint(run, *args, use_reentrant=False, **options)
