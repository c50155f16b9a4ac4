"""Eagerly, what a region writes into a reference runs again, though no gradient reads it."""

import jax
import jax.numpy as jnp

REASON = "What drops dead code from a rerun keeps every write into a reference"


def differs(changed: bool) -> bool:
    """Whether a sine runs twice, whose gradient reads a cosine; with the change, nothing is written
    into the reference that holds it."""

    @jax.checkpoint
    def block(x):
        held = jax.new_ref(jnp.sin(2 * x))
        if not changed:
            held[...] += 1
        return held[...]

    step = jax.value_and_grad(lambda x: block(x).sum())
    return str(jax.make_jaxpr(step)(jnp.ones(3))).count("= sin ") == 2
