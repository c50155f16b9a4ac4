"""On the CPU, what XLA fuses before it merges repeated operations is recomputed, the rest is not."""

import jax
import jax.numpy as jnp

w = x = jnp.ones([4, 4])


def added(block, *operations):
    """How many more of these operations the compiled step has with recompute than without."""

    def compiled(block):
        def step(x, cotangent):
            y, backward = jax.vjp(block, x)
            return y, backward(cotangent)

        return jax.jit(step).lower(x, x).compile().as_text()

    plain, recomputed = compiled(block), compiled(jax.checkpoint(block))
    return [recomputed.count(f" {name}(") - plain.count(f" {name}(") for name in operations]


def activation(x):
    h = x @ w
    return (jnp.tanh(2 * h) * h) ** 2


def loop(x):
    h, _ = jax.lax.scan(lambda h, _: (jnp.sin(h), None), x @ w, None, length=3)
    return jnp.exp(h @ w)


assert added(activation, "dot", "tanh") == [0, 1]
# The loop runs again, and the product after it, but not the one before it.
assert added(loop, "while", "dot") == [1, 1]
