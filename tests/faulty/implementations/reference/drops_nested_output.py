"""Drops the gradients of outputs inside a container."""

import functools

import tape

CAUGHT_BY = ("gradient", "structure/nested-tuple-output")


def deaf(t):
    return tape._record((t,), t.data, (), lambda gradient: tape.multiply(gradient, 0.0))


def checkpoint(function, **options):
    @functools.wraps(function)
    def changed(*args, **kwargs):
        result = function(*args, **kwargs)
        if not isinstance(result, tuple):
            return result
        return tuple(p if isinstance(p, tape.Tensor) else tape._map(deaf, p) for p in result)

    return tape.recompute(changed, **options)
