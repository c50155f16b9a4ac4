"""Drops the gradient of the last of several outputs."""

import functools

import tape

CAUGHT_BY = ("gradient", "structure/two-outputs")


def deaf(t):
    return tape._record((t,), t.data, (), lambda gradient: tape.multiply(gradient, 0.0))


def checkpoint(function, **options):
    @functools.wraps(function)
    def changed(*args, **kwargs):
        result = function(*args, **kwargs)
        if isinstance(result, tuple) and isinstance(result[-1], tape.Tensor):
            return *result[:-1], deaf(result[-1])
        return result

    return tape.recompute(changed, **options)
