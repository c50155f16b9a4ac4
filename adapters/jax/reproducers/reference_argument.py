"""An unused function with a reference as an argument raises an unrelated `AttributeError`."""

import jax
import jax.numpy as jnp


@jax.checkpoint
def block(held):
    held[...] += 1
    return held[...]


def loss(x, used):
    y = block(jax.new_ref(jnp.sin(x)))
    return (y if used else x).sum()


for used, error, message in (
    (True, ValueError, "Expected cotangent type Ref"),
    (False, AttributeError, "'ValAccum' object has no attribute 'ref'"),
):
    try:
        jax.grad(loss)(jnp.ones(3), used)
    except error as raised:
        assert message in str(raised)
    else:
        raise AssertionError("no error")
