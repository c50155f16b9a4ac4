"""Keeps the residuals in thread-local storage, so backward fails in another thread."""

import functools
import threading

import jax

CAUGHT_BY = ("error", "procedures/another-thread")


def checkpoint(function, **options):
    region = jax.checkpoint(function, **options)
    kept = threading.local()
    kept.factor = 1.0

    @jax.custom_vjp
    def passed(x):
        return x

    passed.defvjp(lambda x: (x, None), lambda _, gradient: (gradient * kept.factor,))

    @functools.wraps(function)
    def changed(*args, **kwargs):
        result = region(*args, **kwargs)
        return passed(result) if isinstance(result, jax.Array) else result

    return changed
