"""On the CPU, a backward in a jax.jit of its own makes each value of nested regions again once."""

import jax
import jax.numpy as jnp

REASON = "The backward executable expands the barriers between the reruns of nested regions"


def differs(changed: bool) -> bool:
    """Whether a region within adds no product; with the change, XLA keeps the barriers."""
    options = {"xla_disable_hlo_passes": "cse_barrier_expander"} if changed else None
    w = x = jnp.ones([4, 4])

    def inner(x):
        return jnp.sin(jnp.sin(x @ w) @ w)

    def products(inner):
        outer = jax.checkpoint(lambda x: jnp.sin(inner(jnp.sin(x @ w)) @ w))
        y, backward = jax.jit(lambda x: jax.vjp(outer, x))(x)
        lowered = jax.jit(lambda backward, cotangent: backward(cotangent)).lower(backward, y)
        return lowered.compile(compiler_options=options).as_text().count(" dot(")

    return products(inner) == products(jax.checkpoint(inner))
