"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant jax/eager.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
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
    wanted = {"x": values["x"]}

    def loss_of(wanted):
        outputs = forward(**values | wanted)
        return outputs.sum(), outputs

    def total_of(wanted):
        loss, vjp, outputs = jax.vjp(loss_of, wanted, has_aux=True)
        (gradients,) = vjp(jnp.ones_like(loss))
        total = sum(gradient.sum() for gradient in gradients.values())
        return total, (loss, outputs, gradients)

    def second_total_of(wanted):
        total, vjp, taken = jax.vjp(total_of, wanted, has_aux=True)
        (second,) = vjp(jnp.ones_like(total))
        return sum(gradient.sum() for gradient in second.values()), taken

    total, vjp, (loss, outputs, gradients) = jax.vjp(
        second_total_of, wanted, has_aux=True
    )
    (again,) = vjp(jnp.ones_like(total))
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
