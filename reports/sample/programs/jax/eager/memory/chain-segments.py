"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant jax/eager.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import jax
import jax.numpy as jnp
import numpy as np


def inputs():
    rng = np.random.default_rng(0)
    x = jnp.asarray(0.5 * rng.standard_normal((2048, 64)), jnp.float32)
    ws = [
        jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32) for _ in range(8)
    ]
    vs = [
        jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32) for _ in range(8)
    ]
    return {"x": x, "ws": ws, "vs": vs}


def segment(h, w, v):
    p = h @ w
    s = jnp.sin(p)
    t = jnp.sin(s)
    u = jnp.sin(t)
    q = u @ v
    r = jnp.sin(q)
    m = jnp.sin(r)
    return jnp.sin(m)


def plain(x, ws, vs):
    h = x @ vs[0]
    for w, v in zip(ws[:4], vs[:4]):
        h = segment(h, w, v)
    return h.sum()


def recomputed(x, ws, vs):
    h = x @ vs[0]
    remat_segment = jax.checkpoint(segment)
    for w, v in zip(ws[:4], vs[:4]):
        h = remat_segment(h, w, v)
    return h.sum()


def run(forward):
    values = inputs()
    wanted = {"ws": values["ws"], "vs": values["vs"]}

    def loss_of(wanted):
        return forward(**values | wanted)

    loss, gradients = value_and_grad(loss_of, wanted)
    gradients = {
        "w1": gradients["ws"][0],
        "w4": gradients["ws"][3],
        "v4": gradients["vs"][3],
    }
    return {"outputs": loss, "losses": [loss], "gradients": gradients}


def value_and_grad(loss_of, wanted):
    # jax.value_and_grad(loss_of)(wanted), step by step.
    loss, vjp = jax.vjp(loss_of, wanted)
    (gradients,) = vjp(jnp.ones_like(loss))
    return loss, gradients


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
