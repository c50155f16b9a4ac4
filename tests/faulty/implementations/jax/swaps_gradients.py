"""Swaps the gradients of the first two arguments if they have the same shape."""

import functools

import jax

CAUGHT_BY = ("gradient", "structure/two-outputs")


@jax.custom_vjp
def swap(a, b):
    return a, b


swap.defvjp(lambda a, b: ((a, b), None), lambda _, gradients: gradients[::-1])


def checkpoint(function, **options):
    region = jax.checkpoint(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        if len(args) > 1 and all(isinstance(a, jax.Array) for a in args[:2]):
            a, b = args[:2]
            if (a.shape, a.dtype) == (b.shape, b.dtype):
                args = (*swap(a, b), *args[2:])
        return region(*args, **kwargs)

    return changed
