"""Calls the function and recomputes nothing."""

import functools

CAUGHT_BY = ("executions", "basics/mlp-block")


def checkpoint(function, **options):
    if not callable(function):
        raise TypeError("not a callable")

    @functools.wraps(function)
    def direct(*args, **kwargs):
        return function(*args, **kwargs)

    return direct
