"""A policy that cannot be called raises no error where JAX does not call it, as in forward mode."""

import jax
import jax.numpy as jnp

block = jax.checkpoint(jnp.sin, policy="wrong")
x = jnp.ones(3)
jax.grad(lambda x: (block(jnp.ones(3)) * x).sum())(x)
jax.jvp(block, (x,), (x,))
jax.grad(lambda x: jax.checkpoint(jnp.real, policy="wrong")(x).sum())(x)
try:
    jax.grad(lambda x: block(x).sum())(x)
except TypeError as error:
    assert "'str' object is not callable" in str(error)
else:
    raise AssertionError("no error")
