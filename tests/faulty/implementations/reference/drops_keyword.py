"""Drops the gradients of keyword arguments."""

import functools

import tape

CAUGHT_BY = ("gradient", "structure/keyword-argument")


def detached(t):
    return tape.Tensor(t.data, t.dtype, scope=t.scope)


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        return region(*args, **tape._map(detached, kwargs))

    return changed
