"""Replaces an exception of the region by its own."""

import functools

import jax

CAUGHT_BY = ("error", "errors/raised-in-nested-region")


def checkpoint(function, **options):
    region = jax.checkpoint(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        try:
            return region(*args, **kwargs)
        except ValueError as error:
            raise RuntimeError("a region failed") from error

    return changed
