"""A recomputed function that is called again, eagerly, after a captured value has changed."""

import jax
import jax.numpy as jnp


def plain(function):
    return function


recomputed = jax.checkpoint


def run(wrap):
    scale = [1.0]
    region = wrap(lambda x: jnp.sin(x) * scale[0])
    gradients = []
    for number in (1.0, 2.0, 3.0):
        scale[0] = number
        gradients.append(jax.grad(lambda x: region(x))(1.0))
    return gradients
