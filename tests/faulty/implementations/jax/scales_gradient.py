"""Scales the gradients of the outputs by 1.001."""

import functools

import jax

CAUGHT_BY = ("gradient", "basics/mlp-block")


@jax.custom_vjp
def scaled(x):
    return x


scaled.defvjp(lambda x: (x, None), lambda _, gradient: (gradient * (1 + 1e-3),))


def checkpoint(function, **options):
    region = jax.checkpoint(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        result = region(*args, **kwargs)
        return scaled(result) if isinstance(result, jax.Array) else result

    return changed
