"""Overwrites its first argument after forward."""

import functools

import tape

CAUGHT_BY = ("value", "basics/mlp-block")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        result = region(*args, **kwargs)
        if args and isinstance(args[0], tape.Tensor):
            args[0].data[...] *= 2
        return result

    return changed
