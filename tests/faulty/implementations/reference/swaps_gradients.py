"""Swaps the gradients of the first two arguments if they have the same shape."""

import functools

import tape

CAUGHT_BY = ("gradient", "structure/two-outputs")


def nothing(gradient):
    return tape.multiply(gradient, 0.0)


def swapped(a, b):
    first = tape._record((a, b), a.data, (), nothing, lambda gradient: gradient)
    second = tape._record((a, b), b.data, (), lambda gradient: gradient, nothing)
    return first, second


def checkpoint(function, **options):
    @functools.wraps(function)
    def changed(*args, **kwargs):
        if len(args) > 1 and all(isinstance(t, tape.Tensor) and t.node for t in args[:2]):
            a, b = args[:2]
            if a.shape == b.shape:
                args = (*swapped(a, b), *args[2:])
        return function(*args, **kwargs)

    return tape.recompute(changed, **options)
