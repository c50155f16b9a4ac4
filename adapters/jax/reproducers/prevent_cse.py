"""With `prevent_cse=False`, nothing is recomputed outside of loops of two or more iterations."""

import jax
import jax.numpy as jnp

# XLA keeps the barriers that prevent_cse=True would insert.
options = {"xla_disable_hlo_passes": "cse_barrier_expander"}
w = x = jnp.ones([4, 4])


def products(block):
    def step(x, cotangent):
        y, backward = jax.vjp(block, x)
        return y, backward(cotangent)

    compiled = jax.jit(step).lower(x, x).compile(compiler_options=options)
    return compiled.as_text().count(" dot(")


def block(x):
    return jnp.sin(jnp.sin(x @ w) @ w)


def once(body):
    return lambda x: jax.lax.scan(lambda h, _: (body(h), None), x, None, length=1)[0]


recomputed = jax.checkpoint(block, prevent_cse=False)
assert products(block) == products(recomputed) == products(once(recomputed))
assert products(jax.checkpoint(block)) > products(block)
