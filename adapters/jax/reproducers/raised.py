"""Captured arrays are never freed if the function raises while `jax.checkpoint` traces it."""

import contextlib
import gc
import weakref

import jax
import jax.numpy as jnp

captured = jnp.ones(3) + 1


def block(x):
    _ = x * captured
    raise ValueError


with contextlib.suppress(ValueError):
    jax.vjp(jax.checkpoint(block), jnp.ones(3))
held = weakref.ref(captured)
captured = None
jax.clear_caches()
gc.collect()
assert held() is not None
