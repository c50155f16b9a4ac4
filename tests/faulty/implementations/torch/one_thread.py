"""Keeps the function that it runs again where only the thread that ran forward finds it."""

import threading

import torch.utils.checkpoint

CAUGHT_BY = ("error", "procedures/another-thread")


def checkpoint(function, *args, **options):
    kept = threading.local()
    kept.function = function

    def found(*given, **named):
        return kept.function(*given, **named)

    return torch.utils.checkpoint.checkpoint(found, *args, use_reentrant=False, **options)
