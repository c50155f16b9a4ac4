"""With `static_argnums`, what a function captures stays alive though nothing refers to the function."""

import gc
import weakref

import jax
import jax.numpy as jnp


def step(x):
    def block(flag):
        return jnp.sin(x) if flag else x

    return jax.checkpoint(block, static_argnums=(0,))(True)


captured = jnp.ones(3) + 1
step(captured)
held = weakref.ref(captured)
captured = None
gc.collect()
assert held() is not None
jax.clear_caches()
assert held() is None
