"""Jitted functions in a region, and the region in a branch of `lax.cond` and in a loop."""

import jax
import jax.numpy as jnp
from jax import lax


def plain(function):
    return function


recomputed = jax.checkpoint


def run(wrap):
    region = wrap(jax.jit(lambda x: jnp.sin(x) * x))

    def loss(x):
        x = lax.cond(x > 0, region, lambda x: x, x)
        return lax.fori_loop(0, 3, lambda _, x: region(x), x)

    return jax.value_and_grad(loss)(1.2)
