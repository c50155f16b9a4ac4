"""After an exception in the recomputation, the graph is not freed."""

import contextlib
import gc

import mlx.core as mx
from mlx import nn

SIZE = 2**16


def step() -> None:
    module, calls = nn.Module(), []

    def region(x):
        calls.append(None)
        if len(calls) > 1:
            raise ValueError("raised")
        return mx.sin(x * module.w)

    def loss(w, x):
        module.w = w
        return nn.utils.checkpoint(module, region)(x).sum()

    w, x = mx.ones(SIZE) * 3, mx.ones(SIZE) * 2
    mx.eval(w, x)
    with contextlib.suppress(ValueError):
        mx.grad(loss)(w, x)
    assert len(calls) == 2


gc.collect()
before = mx.get_active_memory()
for _ in range(3):
    step()
gc.collect()
mx.synchronize()
assert mx.get_active_memory() - before >= 3 * 4 * SIZE
