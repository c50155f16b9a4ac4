"""Recomputes nothing if the first argument is no tensor."""

import functools

import tape

CAUGHT_BY = ("executions", "arguments/number-first")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        first = not args or isinstance(args[0], tape.Tensor)
        return (region if first else function)(*args, **kwargs)

    return changed
