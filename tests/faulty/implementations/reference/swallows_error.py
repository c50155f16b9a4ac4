"""Swallows a ValueError in the rerun, and goes on with zeros."""

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
