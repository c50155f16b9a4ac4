"""With `prevent_cse=False`, the body of a loop of one iteration is not recomputed."""

import jax
import jax.numpy as jnp

# XLA for the CPU would take barriers away. prevent_cse=False sets none, and this
# changes nothing.
options = {"xla_disable_hlo_passes": "cse_barrier_expander"}
w = x = jnp.ones([4, 4])


def products(body):
    def step(x, cotangent):
        y, backward = jax.vjp(lambda x: jax.lax.scan(body, x, None, length=rounds)[0], x)
        return y, backward(cotangent)

    compiled = jax.jit(step).lower(x, x).compile(compiler_options=options)
    return compiled.as_text().count(" dot(")


def body(h, _):
    return jnp.sin(jnp.sin(h @ w)), None


rounds = 1
assert products(body) == products(jax.checkpoint(body, prevent_cse=False))
