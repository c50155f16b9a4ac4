"""No fault: what the others are compared with."""

import jax


def checkpoint(function, **options):
    return jax.checkpoint(function, **options)
