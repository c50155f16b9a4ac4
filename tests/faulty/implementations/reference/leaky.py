"""Recomputes, and leaves one tensor behind each time that it is called."""

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
