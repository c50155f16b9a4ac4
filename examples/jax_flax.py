"""A transformer in Flax NNX, with dropout; each block is recomputed by `nnx.remat`."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Block(nnx.Module):
    def __init__(self, width, rngs):
        self.first, self.second = nnx.LayerNorm(width, rngs=rngs), nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, width, rngs=rngs, decode=False)
        self.up, self.down = (
            nnx.Linear(width, 4 * width, rngs=rngs),
            nnx.Linear(4 * width, width, rngs=rngs),
        )

    def __call__(self, x):
        x = x + self.attention(self.first(x))
        return x + self.down(jax.nn.gelu(self.up(self.second(x))))


class Transformer(nnx.Module):
    def __init__(self, recompute, rngs):
        self.embed = nnx.Embed(1000, 128, rngs=rngs)
        self.blocks = nnx.List([Block(128, rngs) for _ in range(4)])
        self.head = nnx.Linear(128, 1000, rngs=rngs)
        self.run = nnx.remat(Block.__call__) if recompute else Block.__call__

    def __call__(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = self.run(block, x)
        return self.head(x)


def model(recompute):
    return Transformer(recompute, nnx.Rngs(0))


def batch(step):
    return jax.random.randint(jax.random.key(step), (4, 64), 0, 1000)


def loss(model, ids):
    losses = optax.softmax_cross_entropy_with_integer_labels(model(ids[:, :-1]), ids[:, 1:])
    return jnp.mean(losses)
