"""Recomputes, and leaks one tensor per call."""

import functools

import tape

CAUGHT_BY = ("release", "release/dropout")

_left = []


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def leaky(*args, **kwargs):
        _left.append(tape.tensor([0.0]))
        return region(*args, **kwargs)

    return leaky
