"""Gives tensors in dataclasses no gradient."""

import dataclasses
import functools

import tape

CAUGHT_BY = ("gradient", "containers/object-argument")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        args = [
            tape._map(tape.stop_gradient, a)
            if dataclasses.is_dataclass(a) and not isinstance(a, tape.Tensor)
            else a
            for a in args
        ]
        return region(*args, **kwargs)

    return changed
