"""No fault: the control for the others."""

import jax


def checkpoint(function, **options):
    return jax.checkpoint(function, **options)
