"""Within one `jax.jit`, XLA merges single operations of the recomputation with the forward pass."""

import jax
import jax.numpy as jnp

w = x = jnp.ones([64, 64])


def compiled(block):
    def step(x, cotangent):
        y, backward = jax.vjp(block, x)
        return y, backward(cotangent)

    return jax.jit(step).lower(x, x).compile()


def added(block, operation):
    """How many more of this operation the compiled step has with recompute than without."""
    plain, recomputed = (compiled(f).as_text() for f in (block, jax.checkpoint(block)))
    return recomputed.count(f" {operation}(") - plain.count(f" {operation}(")


def layer(x):
    return jnp.sin(jnp.sin(x @ w) @ w)


def sines(x):
    return jnp.sin(jnp.sin(x))


assert added(layer, "dot") == 2
assert added(sines, "sine") == 0
