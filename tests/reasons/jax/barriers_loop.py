"""On the CPU, a loop and what follows it run again within one jax.jit, what comes before it does not."""

import jax
import jax.numpy as jnp

REASON = "On the CPU, XLA expands optimisation barriers (pass cse_barrier_expander) and then fuses"


def differs(changed: bool) -> bool:
    """Whether a loop and one product of two are added; with the change, a loop that keeps nothing."""
    w = x = jnp.ones([4, 4])

    def compiled(block):
        def step(x, cotangent):
            y, backward = jax.vjp(block, x)
            return y, backward(cotangent)

        return jax.jit(step).lower(x, x).compile().as_text()

    def block(x):
        # Of a sine, the rerun keeps the cosine of each round; of half a number, nothing.
        body = (lambda h, _: (0.5 * h, None)) if changed else (lambda h, _: (jnp.sin(h), None))
        h, _ = jax.lax.scan(body, x @ w, None, length=3)
        return jnp.exp(h @ w)

    plain, recomputed = compiled(block), compiled(jax.checkpoint(block))
    added = [recomputed.count(kind) - plain.count(kind) for kind in (" while(", " dot(")]
    return added == [1, 1]
