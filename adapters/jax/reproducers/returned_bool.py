"""Python cannot read a bool that a recomputed function returns inside of another one: it is an array."""

import jax
import jax.numpy as jnp


def inner(x):
    return jnp.sin(x), x.ndim == 1


def outer(x, inner):
    y, flat = inner(x)
    return jnp.sin(y) if flat else jnp.cos(y)


x = jnp.ones(3)
outer(x, inner)
outer(x, jax.checkpoint(inner))
try:
    jax.checkpoint(lambda x: outer(x, jax.checkpoint(inner)))(x)
except jax.errors.TracerBoolConversionError:
    pass
else:
    raise AssertionError("no error")
