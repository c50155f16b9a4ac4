"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant jax/jit-prevent-cse-false.
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
    return {
        "x": x,
        **{f"w{i}": w for i, w in enumerate(ws, 1)},
        **{f"v{i}": v for i, v in enumerate(vs, 1)},
    }


def segment(h, w, v):
    p = h @ w
    s = jnp.sin(p)
    t = jnp.sin(s)
    u = jnp.sin(t)
    q = u @ v
    r = jnp.sin(q)
    m = jnp.sin(r)
    return jnp.sin(m)


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1
    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = segment(h, w, v)
    return h.sum()


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1
    remat_segment = jax.checkpoint(segment, prevent_cse=False)
    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = remat_segment(h, w, v)
    return h.sum()


def run(forward):
    values = inputs()
    wanted = {"w1": values["w1"], "w4": values["w4"], "v4": values["v4"]}
    fixed = {
        name: values[name]
        for name in (
            "x",
            "w2",
            "w3",
            "w5",
            "w6",
            "w7",
            "w8",
            "v1",
            "v2",
            "v3",
            "v5",
            "v6",
            "v7",
            "v8",
        )
    }

    def loss_of(wanted, fixed):
        return forward(**fixed | wanted)

    step = jax.jit(jax.value_and_grad(loss_of))
    loss, gradients = step(wanted, fixed)
    return {"outputs": loss, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
