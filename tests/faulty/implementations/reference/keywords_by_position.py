"""Binds keyword arguments in the order in which the function declares them."""

import functools
import inspect

import tape

CAUGHT_BY = ("value", "arguments/keywords-in-another-order")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)
    names = [*inspect.signature(function).parameters]

    @functools.wraps(function)
    def changed(*args, **kwargs):
        declared = [name for name in names if name in kwargs]
        if len(declared) == len(kwargs):
            kwargs = dict(zip(declared, kwargs.values(), strict=True))
        return region(*args, **kwargs)

    return changed
