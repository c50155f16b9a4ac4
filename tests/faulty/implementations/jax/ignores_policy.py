"""Recomputes the whole region and ignores its policy."""

import jax

CAUGHT_BY = ("executions", "policies/save-matmul")


def checkpoint(function, *, policy=None, **options):
    return jax.checkpoint(function, **options)
