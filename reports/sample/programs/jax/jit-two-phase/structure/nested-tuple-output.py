"""A region that returns a tuple inside a tuple.

Case structure/nested-tuple-output, variant jax/jit-two-phase.
Source: pytorch issue 124725; Paddle's recompute with nested outputs
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
        a = jnp.sin(h)
        b = jnp.tanh(h)
        c = jnp.exp(a)
        return a, (b, c)

    a, (b, c) = block(x)
    ab = a * b
    z = ab * c
    return z, (b, c)


def recomputed(x, w):
    def block(x):
        h = x @ w
        a = jnp.sin(h)
        b = jnp.tanh(h)
        c = jnp.exp(a)
        return a, (b, c)

    a, (b, c) = jax.checkpoint(block)(x)
    ab = a * b
    z = ab * c
    return z, (b, c)


def run(forward):
    values = inputs()

    @jax.jit
    def start(values):
        def loss_of(values):
            outputs = forward(**values)
            return outputs[0].sum(), outputs

        return jax.vjp(loss_of, values, has_aux=True)

    @jax.jit
    def finish(vjp, cotangent):
        return vjp(cotangent)

    loss, vjp, outputs = start(values)
    (gradients,) = finish(vjp, jnp.ones_like(loss))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
