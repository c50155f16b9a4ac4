"""A region that returns a tuple inside a tuple.

Case structure/nested-tuple-output, variant jax/jit.
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

    def loss_of(values):
        outputs = forward(**values)
        return outputs[0].sum(), outputs

    step = jax.jit(jax.value_and_grad(loss_of, has_aux=True))
    (loss, outputs), gradients = step(values)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
