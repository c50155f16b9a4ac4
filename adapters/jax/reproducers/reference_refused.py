"""Up to JAX 0.8.0, a region that writes into a reference outside of it cannot be differentiated."""

import jax
import jax.numpy as jnp

total = jax.new_ref(jnp.zeros(3))


@jax.checkpoint
def block(x):
    total[...] += 1
    return jnp.sin(x)


try:
    jax.vjp(block, jnp.ones(3))
except NotImplementedError as error:
    assert "Effects not supported in partial-eval" in str(error)
else:
    raise AssertionError("no error is raised")
