"""Replaces an exception of the region by its own."""

import torch.utils.checkpoint

CAUGHT_BY = ("error", "errors/raised-in-region")


def checkpoint(function, *args, **options):
    try:
        return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    except ValueError as error:
        raise RuntimeError("a region failed") from error
