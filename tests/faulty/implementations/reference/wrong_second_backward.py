"""Halves the gradient in a second backward pass."""

import functools

import tape

CAUGHT_BY = ("gradient", "procedures/second-backward")


def halved(t):
    def back(gradient):
        return tape.multiply(gradient, 0.5)

    return tape._record((t,), t.data, (), back)


def checkpoint(function, **options):
    @functools.wraps(function)
    def region(*args, **kwargs):
        calls = []

        @functools.wraps(function)
        def changed(*args, **kwargs):
            calls.append(function)
            result = function(*args, **kwargs)
            return tape._map(halved, result) if len(calls) > 2 else result

        return tape.recompute(changed, **options)(*args, **kwargs)

    return region
