"""Identifies arguments by `id`, so a tensor that is passed twice gets only one gradient."""

import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "structure/one-tensor-as-two-arguments")


def checkpoint(function, *args, **options):
    seen = set()

    def once(value):
        if not isinstance(value, torch.Tensor):
            return value
        known = id(value) in seen
        seen.add(id(value))
        return value.detach() if known else value

    args = [once(value) for value in args]
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
