"""Identifies arguments by `id`, so an array that is passed twice gets only one gradient."""

import functools

import jax

CAUGHT_BY = ("gradient", "structure/one-tensor-as-two-arguments")


def checkpoint(function, **options):
    region = jax.checkpoint(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        seen = set()

        def once(value):
            known = id(value) in seen
            seen.add(id(value))
            known = known and isinstance(value, jax.Array)
            return jax.lax.stop_gradient(value) if known else value

        return region(*map(once, args), **kwargs)

    return changed
