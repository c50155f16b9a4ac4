"""Eagerly, what a region writes into a reference runs again, though no gradient reads it."""

import jax
import jax.numpy as jnp

REASON = "What drops dead code from a rerun keeps every operation on a reference"


def differs(changed: bool) -> bool:
    """Whether a sine runs twice, whose gradient reads a cosine; with the change, no reference holds
    it."""

    @jax.checkpoint
    def block(x):
        s = jnp.sin(2 * x)
        return s if changed else jax.new_ref(s)[...]

    step = jax.value_and_grad(lambda x: block(x).sum())
    return str(jax.make_jaxpr(step)(jnp.ones(3))).count("= sin ") == 2
