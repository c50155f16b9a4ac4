"""The recomputed graph of an inner region is not freed if no gradient reads it."""

import mlx.core as mx
from mlx import nn

SIZE = 2**16


def step() -> None:
    x, w, outer, inner = mx.ones(SIZE), mx.ones(1), nn.Module(), nn.Module()

    def run_outer():
        inner.w = outer.w
        return nn.utils.checkpoint(inner, lambda: mx.cos(x))()

    def loss(w):
        outer.w = w
        return nn.utils.checkpoint(outer, run_outer)().sum()

    mx.eval(mx.value_and_grad(loss)(w))


step()
before = mx.get_active_memory()
for _ in range(3):
    step()
mx.synchronize()
assert mx.get_active_memory() - before >= 3 * 4 * SIZE
