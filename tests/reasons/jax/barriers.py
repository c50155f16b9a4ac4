"""On the CPU, nothing of a region runs again within one jax.jit, because XLA expands the barriers."""

import jax
import jax.numpy as jnp

REASON = "On the CPU, XLA expands optimisation barriers (pass cse_barrier_expander) after its first"


def differs(changed: bool) -> bool:
    """Whether there are the plain step's products; with the change, XLA leaves the pass out."""
    options = {"xla_disable_hlo_passes": "cse_barrier_expander"} if changed else None
    w = x = jnp.ones([4, 4])

    def products(block):
        def step(x, cotangent):
            y, backward = jax.vjp(block, x)
            return y, backward(cotangent)

        compiled = jax.jit(step).lower(x, x).compile(compiler_options=options)
        return compiled.as_text().count(" dot(")

    def block(x):
        return jnp.sin(jnp.sin(x @ w) @ w)

    return products(block) == products(jax.checkpoint(block))
