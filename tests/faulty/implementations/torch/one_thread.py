"""Keeps the function in thread-local storage, so backward fails in another thread."""

import threading

import torch.utils.checkpoint

CAUGHT_BY = ("error", "procedures/another-thread")


def checkpoint(function, *args, **options):
    kept = threading.local()
    kept.function = function

    def found(*given, **named):
        return kept.function(*given, **named)

    return torch.utils.checkpoint.checkpoint(found, *args, use_reentrant=False, **options)
