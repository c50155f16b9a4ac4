"""On the CPU, a chain of recomputed layers within one `jax.jit` needs the memory of the plain chain."""

import jax
import jax.numpy as jnp

w = x = jnp.ones([64, 64])


def memory(wrapped):
    layer = wrapped(lambda x: jnp.sin(jnp.sin(jnp.sin(x @ w) @ w) @ w))

    def loss(x):
        for _ in range(6):
            x = layer(x)
        return x.sum()

    compiled = jax.jit(jax.grad(loss)).lower(x).compile()
    return compiled.memory_analysis().temp_size_in_bytes / x.nbytes


plain, recomputed = memory(lambda layer: layer), memory(jax.checkpoint)
assert recomputed > plain - 1
