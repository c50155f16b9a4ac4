"""Each call of a nested region keeps a copy of the random state until backward."""

import gc

import mindspore as ms
from mindspore import Tensor, nn, ops


class Inner(nn.Cell):
    def construct(self, x):
        return ops.sin(x)


class Outer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def construct(self, x):
        for _ in range(3):
            x = ms.recompute(self.inner, x, use_reentrant=False)
        return ops.exp(x)


def tensors() -> list:
    """All tensors that are alive."""
    gc.collect()
    return [value for value in gc.get_objects() if issubclass(type(value), Tensor)]


ms.set_context(mode=ms.PYNATIVE_MODE)
outer, state = Outer(), ms.get_rng_state()


def forward(x):
    return ms.recompute(outer, x, use_reentrant=False)


before = tensors()
known = set(map(id, before))
y, backward = ms.vjp(forward, ops.ones((3, 5)))
kept = [tensor for tensor in tensors() if id(tensor) not in known]
backward(ops.ones_like(y))
assert sum((t.shape, t.dtype) == (state.shape, state.dtype) for t in kept) == 1 + 3
