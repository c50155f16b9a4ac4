"""In a region, a jitted function that donates the region's argument raises an error in backward."""

from functools import partial

import jax
import jax.numpy as jnp


def plain(function):
    return function


recomputed = jax.checkpoint


@partial(jax.jit, donate_argnums=0)
def update(state):
    return jnp.sin(state)


def run(wrap):
    state = jnp.arange(3.0) * 2
    return jax.grad(wrap(lambda state: update(state).sum()))(state)
