"""Drops keyword arguments that the function does not have."""

import functools
import inspect

import tape

CAUGHT_BY = ("error", "errors/unknown-keyword")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def changed(*args, **kwargs):
        if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            kwargs = {name: value for name, value in kwargs.items() if name in known}
        return region(*args, **kwargs)

    return changed
