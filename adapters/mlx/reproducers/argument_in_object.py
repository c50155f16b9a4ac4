"""An array in a dataclass gets a gradient of zero through `mx.checkpoint`."""

from dataclasses import dataclass

import mlx.core as mx


@dataclass
class Box:
    a: mx.array


def loss(x, run):
    return run(lambda box: mx.sin(box.a))(Box(x)).sum()


x = mx.ones(3)
plain = mx.grad(lambda x: loss(x, lambda block: block))(x)
recomputed = mx.grad(lambda x: loss(x, mx.checkpoint))(x)
assert mx.all(plain != 0).item()
assert mx.all(recomputed == 0).item()
