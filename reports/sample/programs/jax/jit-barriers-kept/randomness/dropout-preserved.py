"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant jax/jit-barriers-kept.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import jax
import jax.numpy as jnp
import numpy as np


def dropout(key, x, p):
    keep = jax.random.bernoulli(key, 1 - p, x.shape)
    return jnp.where(keep, x / (1 - p), 0)


def inputs():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((8, 16)), jnp.float32)
    w1 = jnp.asarray(0.3 * rng.standard_normal((16, 16)), jnp.float32)
    w2 = jnp.asarray(0.3 * rng.standard_normal((16, 4)), jnp.float32)
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2, key):
    def block(x, key):
        h = x @ w1
        d = dropout(jax.random.fold_in(key, 0), h, p=0.5)
        y = d @ w2
        return y, d

    y, d = block(x, jax.random.fold_in(key, 0))
    z = y * y
    return z, d


def recomputed(x, w1, w2, key):
    def block(x, key):
        h = x @ w1
        d = dropout(jax.random.fold_in(key, 0), h, p=0.5)
        y = d @ w2
        return y, d

    y, d = jax.checkpoint(block)(x, jax.random.fold_in(key, 0))
    z = y * y
    return z, d


def run(forward):
    values = inputs() | {"key": jax.random.key(0)}
    wanted = {"x": values["x"], "w1": values["w1"], "w2": values["w2"]}
    fixed = {"key": values["key"]}

    def loss_of(wanted, fixed):
        outputs = forward(**fixed | wanted)
        return outputs[0].sum(), outputs

    step = jax.jit(jax.value_and_grad(loss_of, has_aux=True))
    (loss, outputs), gradients = step(wanted, fixed)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
