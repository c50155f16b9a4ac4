"""A string in a tuple is traced and raises `TypeError`; `static_argnums` names whole arguments only."""

import jax
import jax.numpy as jnp


def block(data):
    x, mode = data
    return jnp.sin(x) if mode == "sine" else jnp.cos(x)


x = jnp.ones(3)
block((x, "sine"))
try:
    jax.checkpoint(block)((x, "sine"))
except TypeError as error:
    assert "is not a valid JAX type" in str(error)
else:
    raise AssertionError("no error")
