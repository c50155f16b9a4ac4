"""Ignores a `ValueError` in the recomputation and continues with zeros."""

import functools

import tape

CAUGHT_BY = ("error", "errors/raised-in-rerun")


def checkpoint(function, **options):
    @functools.wraps(function)
    def changed(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except ValueError:
            if tape._state.phase != "rerun":
                raise
            return tape.multiply(args[0], 0.0)

    return tape.recompute(changed, **options)
