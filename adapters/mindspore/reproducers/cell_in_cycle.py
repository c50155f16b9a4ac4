"""A cell on which `recompute()` was called is in a reference cycle, with what it holds."""

import gc

import mindspore as ms
from mindspore import Tensor, nn, ops


class Block(nn.Cell):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def construct(self, x):
        return x * self.scale


def alive() -> int:
    return sum(issubclass(type(value), Tensor) for value in gc.get_objects())


def left(recompute):
    """How many tensors are left after four cells have been used and dropped."""
    gc.collect()
    gc.disable()
    before = alive()
    for _ in range(4):
        block = Block(ops.ones(4))
        if recompute:
            block.recompute(use_reentrant=True)
        ms.grad(block)(x).asnumpy()
        del block
    after = alive()
    gc.enable()
    return after - before


ms.set_context(mode=ms.PYNATIVE_MODE)
x = ops.ones(4)
left(recompute=True)  # the first step fills caches
assert left(recompute=False) == 0
assert left(recompute=True) >= 4
