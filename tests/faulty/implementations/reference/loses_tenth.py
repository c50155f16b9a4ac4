"""Gives the arguments after the ninth no gradient."""

import functools

import tape

CAUGHT_BY = ("gradient", "arguments/twelve")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        args = (*args[:9], *tape._map(tape.stop_gradient, args[9:]))
        return region(*args, **kwargs)

    return changed
