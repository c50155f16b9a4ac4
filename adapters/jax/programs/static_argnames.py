"""`jax.checkpoint` accepts `static_argnames` and ignores it: a branch on that flag raises an error."""

import jax
import jax.numpy as jnp


def block(weight, x, causal):
    h = x @ weight
    return jnp.sin(jnp.tril(h) if causal else h)


def model(recompute):
    recomputed = jax.checkpoint(block, static_argnames=("causal",))
    run = recomputed if recompute else block
    return {"weight": jnp.eye(4), "run": jax.tree_util.Partial(run)}


def batch(step):
    return jax.random.normal(jax.random.key(step), (4, 4))


def loss(model, x):
    return jnp.mean(model["run"](model["weight"], x, causal=True) ** 2)
