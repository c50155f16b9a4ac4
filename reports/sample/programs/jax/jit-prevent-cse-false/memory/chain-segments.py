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
    w1 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    w2 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    w3 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    w4 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    w5 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    w6 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    w7 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    w8 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    v1 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    v2 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    v3 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    v4 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    v5 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    v6 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    v7 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    v8 = jnp.asarray(0.12 * rng.standard_normal((64, 64)), jnp.float32)
    return {
        "x": x,
        "w1": w1,
        "w2": w2,
        "w3": w3,
        "w4": w4,
        "w5": w5,
        "w6": w6,
        "w7": w7,
        "w8": w8,
        "v1": v1,
        "v2": v2,
        "v3": v3,
        "v4": v4,
        "v5": v5,
        "v6": v6,
        "v7": v7,
        "v8": v8,
    }


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment1(h):
        p1 = h @ w1
        s1 = jnp.sin(p1)
        t1 = jnp.sin(s1)
        u1 = jnp.sin(t1)
        q1 = u1 @ v1
        r1 = jnp.sin(q1)
        m1 = jnp.sin(r1)
        h = jnp.sin(m1)
        return h

    h = segment1(h)

    def segment2(h):
        p2 = h @ w2
        s2 = jnp.sin(p2)
        t2 = jnp.sin(s2)
        u2 = jnp.sin(t2)
        q2 = u2 @ v2
        r2 = jnp.sin(q2)
        m2 = jnp.sin(r2)
        h = jnp.sin(m2)
        return h

    h = segment2(h)

    def segment3(h):
        p3 = h @ w3
        s3 = jnp.sin(p3)
        t3 = jnp.sin(s3)
        u3 = jnp.sin(t3)
        q3 = u3 @ v3
        r3 = jnp.sin(q3)
        m3 = jnp.sin(r3)
        h = jnp.sin(m3)
        return h

    h = segment3(h)

    def segment4(h):
        p4 = h @ w4
        s4 = jnp.sin(p4)
        t4 = jnp.sin(s4)
        u4 = jnp.sin(t4)
        q4 = u4 @ v4
        r4 = jnp.sin(q4)
        m4 = jnp.sin(r4)
        h = jnp.sin(m4)
        return h

    h = segment4(h)
    z = h.sum()
    return z


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment1(h):
        p1 = h @ w1
        s1 = jnp.sin(p1)
        t1 = jnp.sin(s1)
        u1 = jnp.sin(t1)
        q1 = u1 @ v1
        r1 = jnp.sin(q1)
        m1 = jnp.sin(r1)
        h = jnp.sin(m1)
        return h

    h = jax.checkpoint(segment1, prevent_cse=False)(h)

    def segment2(h):
        p2 = h @ w2
        s2 = jnp.sin(p2)
        t2 = jnp.sin(s2)
        u2 = jnp.sin(t2)
        q2 = u2 @ v2
        r2 = jnp.sin(q2)
        m2 = jnp.sin(r2)
        h = jnp.sin(m2)
        return h

    h = jax.checkpoint(segment2, prevent_cse=False)(h)

    def segment3(h):
        p3 = h @ w3
        s3 = jnp.sin(p3)
        t3 = jnp.sin(s3)
        u3 = jnp.sin(t3)
        q3 = u3 @ v3
        r3 = jnp.sin(q3)
        m3 = jnp.sin(r3)
        h = jnp.sin(m3)
        return h

    h = jax.checkpoint(segment3, prevent_cse=False)(h)

    def segment4(h):
        p4 = h @ w4
        s4 = jnp.sin(p4)
        t4 = jnp.sin(s4)
        u4 = jnp.sin(t4)
        q4 = u4 @ v4
        r4 = jnp.sin(q4)
        m4 = jnp.sin(r4)
        h = jnp.sin(m4)
        return h

    h = jax.checkpoint(segment4, prevent_cse=False)(h)
    z = h.sum()
    return z


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

    @jax.jit
    def step(wanted, fixed, cotangent):
        def loss_of(wanted):
            outputs = forward(**fixed | wanted)
            return outputs, outputs

        loss, vjp, outputs = jax.vjp(loss_of, wanted, has_aux=True)
        (gradients,) = vjp(cotangent.astype(loss.dtype))
        return loss, outputs, gradients

    one = jnp.ones(())
    loss, outputs, gradients = step(wanted, fixed, one)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
