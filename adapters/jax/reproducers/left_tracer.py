"""What `jax.checkpoint`'s function leaves in a list is a tracer, also if nothing reads it."""

import jax
import jax.numpy as jnp

left = []


def region(x):
    left.append(jnp.sin(x))
    return x


def loss_of(w, recomputed):
    function = jax.checkpoint(region) if recomputed else region
    function(jnp.arange(3.0))
    return w * w, left.pop()


_, _, plain = jax.vjp(lambda w: loss_of(w, False), 1.0, has_aux=True)
assert jnp.allclose(plain, jnp.sin(jnp.arange(3.0)))
_, _, found = jax.vjp(lambda w: loss_of(w, True), 1.0, has_aux=True)
assert isinstance(found, jax.core.Tracer)
