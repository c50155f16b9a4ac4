"""A transformer in Flax NNX; the body of each block is recomputed by `nnx.remat`."""

import jax
import optax
from flax import nnx


class Block(nnx.Module):
    def __init__(self, width, recompute, rngs):
        self.first, self.second = nnx.LayerNorm(width, rngs=rngs), nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, width, rngs=rngs, decode=False)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)
        self.run = nnx.remat(Block.body) if recompute else Block.body

    def body(self, x):
        x = x + self.attention(self.first(x))
        return x + self.down(jax.nn.gelu(self.up(self.second(x))))

    def __call__(self, x):
        return self.run(self, x)


def model(recompute):
    rngs = nnx.Rngs(0)
    blocks = [Block(128, recompute, rngs) for _ in range(4)]
    head = nnx.Linear(128, 1000, rngs=rngs)
    return nnx.Sequential(nnx.Embed(1000, 128, rngs=rngs), *blocks, head)


def batch(step):
    return jax.random.randint(jax.random.key(step), (4, 64), 0, 1000)


def loss(model, ids):
    logits = model(ids[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, ids[:, 1:]).mean()
