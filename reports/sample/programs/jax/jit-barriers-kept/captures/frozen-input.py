"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant jax/jit-barriers-kept.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import jax
import jax.numpy as jnp
import numpy as np


def inputs():
    rng = np.random.default_rng(0)
    x = jnp.asarray(0.5 * rng.standard_normal((3, 4)), jnp.float32)
    w1 = jnp.asarray(0.5 * rng.standard_normal((4, 4)), jnp.float32)
    w2 = jnp.asarray(0.5 * rng.standard_normal((4, 2)), jnp.float32)
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        h = x @ w1
        s = jnp.sin(h)
        return jnp.exp(s)

    a = block(x)
    y = a @ w2
    return y * y


def recomputed(x, w1, w2):
    def block(x):
        h = x @ w1
        s = jnp.sin(h)
        return jnp.exp(s)

    a = jax.checkpoint(block)(x)
    y = a @ w2
    return y * y


def run(forward):
    values = inputs()
    wanted = {"w1": values["w1"], "w2": values["w2"]}
    fixed = {"x": values["x"]}

    def loss_of(wanted, fixed):
        outputs = forward(**fixed | wanted)
        return outputs.sum(), outputs

    step = jax.jit(jax.value_and_grad(loss_of, has_aux=True))
    (loss, outputs), gradients = step(wanted, fixed)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
