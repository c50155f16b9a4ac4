"""A region that writes a reference (`jax.new_ref`) writes it twice, so that the gradient is wrong."""

import jax
import jax.numpy as jnp


def plain(function):
    return function


recomputed = jax.checkpoint


def run(wrap):
    count = jax.new_ref(1.0)

    def region(x, count):
        scale = count[...]
        count[...] = scale + 1
        return jnp.sin(x) * scale

    gradient = jax.grad(wrap(region))(1.0, count)
    return {"gradient": gradient, "count": count[...]}
