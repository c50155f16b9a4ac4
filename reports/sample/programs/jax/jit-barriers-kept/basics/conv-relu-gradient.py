"""A recomputed convolution feeding a plain ReLU.

Case basics/conv-relu-gradient, variant jax/jit-barriers-kept.
Source: mindspore.recompute, API page, example
"""

import jax
import jax.numpy as jnp
from jax import lax


def inputs():
    x = jnp.full((2, 2, 2, 2), 2.0, jnp.float32)
    w = jnp.full((2, 2, 2, 2), 1.0, jnp.float32)
    return {"x": x, "w": w}


def plain(x, w):
    def conv(x):
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME")
        return y

    y = conv(x)
    z = jax.nn.relu(y)
    return z


def recomputed(x, w):
    def conv(x):
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME")
        return y

    y = jax.checkpoint(conv)(x)
    z = jax.nn.relu(y)
    return z


def run(forward):
    values = inputs()
    wanted = {"x": values["x"], "w": values["w"]}

    @jax.jit
    def step(wanted, cotangent):
        def loss_of(wanted):
            outputs = forward(**wanted)
            return outputs.sum(), outputs

        loss, vjp, outputs = jax.vjp(loss_of, wanted, has_aux=True)
        (gradients,) = vjp(cotangent.astype(loss.dtype))
        return loss, outputs, gradients

    one = jnp.ones(())
    loss, outputs, gradients = step(wanted, one)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
