"""Identifies arguments by `id`, so a tensor that is passed twice gets only one gradient."""

import functools

import tape

CAUGHT_BY = ("gradient", "structure/one-tensor-as-two-arguments")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        seen = set()

        def once(t):
            known = id(t) in seen
            seen.add(id(t))
            return tape.Tensor(t.data, t.dtype, scope=t.scope) if known else t

        return region(*tape._map(once, args), **kwargs)

    return changed
