"""With `prevent_cse=False`, the body of a loop of one iteration is not recomputed."""

import jax
import jax.numpy as jnp

w = x = jnp.ones([4, 4])


def products(body):
    def step(x, cotangent):
        y, backward = jax.vjp(lambda x: jax.lax.scan(body, x, None, length=1)[0], x)
        return y, backward(cotangent)

    compiled = jax.jit(step).lower(x, x).compile()
    return compiled.as_text().count(" dot(")


def body(h, _):
    return jnp.sin(jnp.sin(h @ w)), None


assert products(body) == products(jax.checkpoint(body, prevent_cse=False))
