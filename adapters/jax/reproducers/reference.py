"""Outside of `jax.jit`, a write into a reference is recomputed although no gradient reads it."""

import jax
import jax.numpy as jnp


@jax.checkpoint
def block(x):
    held = jax.new_ref(jnp.sin(2 * x))
    held[...] += 1
    return held[...]


step = jax.value_and_grad(lambda x: block(x).sum())
assert str(jax.make_jaxpr(step)(jnp.ones(3))).count("= sin ") == 2
