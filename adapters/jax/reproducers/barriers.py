"""On the CPU, little is recomputed within one `jax.jit`, because XLA removes the barriers."""

import jax
import jax.numpy as jnp

w = x = jnp.ones([64, 64])


def compiled(block):
    def step(x, cotangent):
        y, backward = jax.vjp(block, x)
        return y, backward(cotangent)

    return jax.jit(step).lower(x, x).compile()


def added(block, *operations):
    """How many more of these operations the compiled step has with recompute than without."""
    plain, recomputed = (compiled(f).as_text() for f in (block, jax.checkpoint(block)))
    return [recomputed.count(f" {name}(") - plain.count(f" {name}(") for name in operations]


def layer(x):
    return jnp.sin(jnp.sin(x @ w) @ w)


def activation(x):
    h = x @ w
    return (jnp.tanh(2 * h) * h) ** 2


def chain(layer):
    def layers(x):
        for _ in range(6):
            x = layer(x)
        return x

    return compiled(layers).memory_analysis().temp_size_in_bytes


assert added(layer, "dot") == [0]
assert added(activation, "dot", "tanh") == [0, 1]
assert chain(layer) == chain(jax.checkpoint(layer))
