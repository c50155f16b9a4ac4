"""On the CPU, a product is not run again within one jax.jit, and a tanh is that was fused before."""

import jax
import jax.numpy as jnp

REASON = "On the CPU, XLA expands optimisation barriers (pass cse_barrier_expander) and then fuses"


def differs(changed: bool) -> bool:
    """Whether there are as many products and one more tanh; with the change, XLA fuses nothing."""
    options = {"xla_disable_hlo_passes": "fusion"} if changed else None
    w = x = jnp.ones([4, 4])

    def compiled(block):
        def step(x, cotangent):
            y, backward = jax.vjp(lambda x: block(x) ** 2, x)
            return y, backward(cotangent)

        return jax.jit(step).lower(x, x).compile(compiler_options=options).as_text()

    def block(x):
        h = x @ w
        return jnp.tanh(2 * h) * h

    plain, recomputed = compiled(block), compiled(jax.checkpoint(block))
    assert recomputed.count(" dot(") == plain.count(" dot(")
    return recomputed.count(" tanh(") == plain.count(" tanh(") + 1
