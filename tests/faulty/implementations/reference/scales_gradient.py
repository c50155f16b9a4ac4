"""Scales the gradients of the outputs by 1.001."""

import functools

import tape

CAUGHT_BY = ("gradient", "basics/mlp-block")


def scaled(t):
    def back(gradient):
        return tape.multiply(gradient, 1 + 1e-3)

    return tape._record((t,), t.data, (), back)


def checkpoint(function, **options):
    @functools.wraps(function)
    def changed(*args, **kwargs):
        return tape._map(scaled, function(*args, **kwargs))

    return tape.recompute(changed, **options)
