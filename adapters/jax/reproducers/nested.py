"""On the CPU, a backward in its own `jax.jit` recomputes each value of nested functions only once."""

import jax
import jax.numpy as jnp

w = x = jnp.ones([4, 4])


def inner(x):
    return jnp.sin(jnp.sin(x @ w) @ w)


def products(inner):
    outer = jax.checkpoint(lambda x: jnp.sin(inner(jnp.sin(x @ w)) @ w))
    y, backward = jax.jit(lambda x: jax.vjp(outer, x))(x)
    lowered = jax.jit(lambda backward, cotangent: backward(cotangent)).lower(backward, y)
    return lowered.compile().as_text().count(" dot(")


assert products(inner) == products(jax.checkpoint(inner))
