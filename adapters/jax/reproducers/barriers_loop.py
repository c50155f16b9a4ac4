"""On the CPU, within one `jax.jit`, a loop and what follows are recomputed, what precedes is not."""

import jax
import jax.numpy as jnp

w = x = jnp.ones([4, 4])


def compiled(block):
    def step(x, cotangent):
        y, backward = jax.vjp(block, x)
        return y, backward(cotangent)

    return jax.jit(step).lower(x, x).compile().as_text()


def block(x):
    # Of a sine, the rerun keeps the cosine of each round; of half a number, nothing.
    h, _ = jax.lax.scan(lambda h, _: (jnp.sin(h), None), x @ w, None, length=3)
    return jnp.exp(h @ w)


plain, recomputed = compiled(block), compiled(jax.checkpoint(block))
added = [recomputed.count(kind) - plain.count(kind) for kind in (" while(", " dot(")]
assert added == [1, 1]
