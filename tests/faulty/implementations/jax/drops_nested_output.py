"""Drops the gradients of outputs inside a container."""

import functools

import jax

CAUGHT_BY = ("gradient", "structure/nested-tuple-output")


def checkpoint(function, **options):
    region = jax.checkpoint(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        result = region(*args, **kwargs)
        if not isinstance(result, tuple):
            return result
        return tuple(
            jax.lax.stop_gradient(part) if isinstance(part, dict | list | tuple) else part
            for part in result
        )

    return changed
