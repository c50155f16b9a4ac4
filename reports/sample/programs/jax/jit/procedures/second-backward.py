"""Gradients taken twice over one retained graph.

Case procedures/second-backward, variant jax/jit.
Source: torch's checkpoint tests, retain_graph; a crash of Paddle's PyLayer recompute
"""

import jax
import jax.numpy as jnp
import numpy as np


def inputs():
    rng = np.random.default_rng(0)
    x = jnp.asarray(0.5 * rng.standard_normal((3, 4)), jnp.float32)
    w = jnp.asarray(0.5 * rng.standard_normal((4, 4)), jnp.float32)
    return {"x": x, "w": w}


def plain(x, w):
    def block(x):
        h = x @ w
        s = jnp.sin(h)
        a = jnp.exp(s)
        return a

    a = block(x)
    z = a * a
    return z


def recomputed(x, w):
    def block(x):
        h = x @ w
        s = jnp.sin(h)
        a = jnp.exp(s)
        return a

    a = jax.checkpoint(block)(x)
    z = a * a
    return z


def run(forward):
    values = inputs()
    wanted = {"x": values["x"], "w": values["w"]}

    @jax.jit
    def step(wanted, cotangent, other):
        def loss_of(wanted):
            outputs = forward(**wanted)
            return outputs.sum(), outputs

        loss, vjp, outputs = jax.vjp(loss_of, wanted, has_aux=True)
        (gradients,) = vjp(cotangent.astype(loss.dtype))
        (again,) = vjp(other.astype(loss.dtype))
        return loss, outputs, gradients, again

    one = jnp.ones(())
    loss, outputs, gradients, again = step(wanted, one, one)
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": gradients,
        "again": again,
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
