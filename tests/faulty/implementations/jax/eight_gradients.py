"""Gives arguments after the eighth gradients of zero."""

import functools

import jax

CAUGHT_BY = ("gradient", "arguments/twelve")


def checkpoint(function, **options):
    region = jax.checkpoint(function, **options)

    @functools.wraps(function)
    def eight(*args, **kwargs):
        return region(*args[:8], *map(jax.lax.stop_gradient, args[8:]), **kwargs)

    return eight
