"""XLA removes a product of an array without elements, recomputed or not."""

import jax
import jax.numpy as jnp

# XLA keeps the barriers, so that it could recompute.
options = {"xla_disable_hlo_passes": "cse_barrier_expander"}
w, x = jnp.ones([4, 4]), jnp.ones([0, 4])


def products(block):
    def step(x, cotangent):
        y, backward = jax.vjp(block, x)
        return y, backward(cotangent)

    compiled = jax.jit(step).lower(x, x).compile(compiler_options=options)
    return compiled.as_text().count(" dot(")


def block(x):
    return jnp.sin(x @ w)


assert products(block) == products(jax.checkpoint(block)) == 0
