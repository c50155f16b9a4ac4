"""A policy that saves a complex result raises an error from inside JAX."""

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name


def block(x):
    z = checkpoint_name(jax.lax.complex(x, x), "z")
    return jnp.sin(jnp.real(z)).sum()


x = jnp.ones(3)
policy = jax.checkpoint_policies.save_only_these_names("z")
jax.grad(jax.checkpoint(block))(x)  # without a policy it works
try:
    jax.grad(jax.checkpoint(block, policy=policy))(x)
except TypeError as error:
    assert "reduce_precision does not accept dtype complex64" in str(error)
else:
    raise AssertionError("no error")
