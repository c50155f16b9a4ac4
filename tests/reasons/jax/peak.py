"""On the CPU, a chain of recomputed layers within one jax.jit takes the memory of the plain chain."""

import jax
import jax.numpy as jnp

REASON = "The rerun is merged with the forward, see the executions"


def differs(changed: bool) -> bool:
    """Whether the executables need equal memory; with the change, XLA keeps the barriers."""
    options = {"xla_disable_hlo_passes": "cse_barrier_expander"} if changed else None
    w = x = jnp.ones([64, 64])

    def memory(wrapped):
        layer = wrapped(lambda x: jnp.sin(jnp.sin(jnp.sin(x @ w) @ w) @ w))

        def loss(x):
            for _ in range(6):
                x = layer(x)
            return x.sum()

        compiled = jax.jit(jax.grad(loss)).lower(x).compile(compiler_options=options)
        return compiled.memory_analysis().temp_size_in_bytes / x.nbytes

    plain, recomputed = memory(lambda layer: layer), memory(jax.checkpoint)
    return recomputed > plain - 1
