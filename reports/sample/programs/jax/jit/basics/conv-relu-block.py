"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant jax/jit.
Source: the family of programs that every framework's page on recompute opens with
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def max_pool2d(x, size):
    window = (1, 1, size, size)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")


def avg_pool2d(x, size):
    window = (1, 1, size, size)
    total = lax.reduce_window(x, 0.0, lax.add, window, window, "VALID")
    return total / size**2


def inputs():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((2, 3, 6, 6)), jnp.float32)
    w1 = jnp.asarray(0.3 * rng.standard_normal((4, 3, 3, 3)), jnp.float32)
    w2 = jnp.asarray(0.3 * rng.standard_normal((2, 4, 3, 3)), jnp.float32)
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        c = lax.conv_general_dilated(x, w1, (1, 1), "SAME")
        r = jax.nn.relu(c)
        return lax.conv_general_dilated(r, w2, (1, 1), "VALID")

    y = block(x)
    p = max_pool2d(y, 2)
    return avg_pool2d(p, 2)


def recomputed(x, w1, w2):
    def block(x):
        c = lax.conv_general_dilated(x, w1, (1, 1), "SAME")
        r = jax.nn.relu(c)
        return lax.conv_general_dilated(r, w2, (1, 1), "VALID")

    y = jax.checkpoint(block)(x)
    p = max_pool2d(y, 2)
    return avg_pool2d(p, 2)


def run(forward):
    values = inputs()

    def loss_of(values):
        outputs = forward(**values)
        return outputs.sum(), outputs

    step = jax.jit(jax.value_and_grad(loss_of, has_aux=True))
    (loss, outputs), gradients = step(values)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
