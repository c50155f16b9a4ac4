"""What a function has captured stays alive when it raises while jax.checkpoint traces it."""

import contextlib
import gc
import weakref

import jax
import jax.numpy as jnp

REASON = "What a traced function captures is held by a weakref.finalize"


def differs(changed: bool) -> bool:
    """Whether the array is alive; with the change, the finalizers are taken out of their registry."""
    captured = jnp.ones(3) + 1

    def block(x):
        _ = x * captured
        raise ValueError

    with contextlib.suppress(ValueError):
        jax.vjp(jax.checkpoint(block), jnp.ones(3))
    held = weakref.ref(captured)
    captured = None
    jax.clear_caches()
    if changed:
        registry = weakref.finalize._registry
        for finalizer in [
            f for f, told in registry.items() if told.func.__name__ == "finalize_const"
        ]:
            finalizer.detach()
    gc.collect()
    return held() is not None
