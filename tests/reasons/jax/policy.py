"""A policy that names sines keeps the derivative of a cosine, which is a sine."""

import contextlib
import io

import jax
import jax.ad_checkpoint
import jax.numpy as jnp

REASON = "A policy is asked of the operations of the derivatives, too"


def differs(changed: bool) -> bool:
    """Whether a region of a cosine keeps a sine; with the change, the region is an exponential."""

    def sines(primitive, *_, **__):
        return primitive.name == "sin"

    block = jax.checkpoint(jnp.exp if changed else jnp.cos, policy=sines)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        jax.ad_checkpoint.print_saved_residuals(block, 1.0)
    return "output of sin" in told.getvalue()
