"""Recomputes, and leaks one array per call."""

import functools

import jax
import numpy as np

CAUGHT_BY = ("release", "release/block")
_left = []


def checkpoint(function, **options):
    region = jax.checkpoint(function, **options)

    @functools.wraps(function)
    def leaky(*args, **kwargs):
        _left.append(jax.device_put(np.zeros(4, np.float32)))
        return region(*args, **kwargs)

    return leaky
