"""A tensor that a cell holds and returns unchanged refers to the cell, which refers to the tensor."""

import gc

import mindspore as ms
from mindspore import Tensor, nn, ops


class Block(nn.Cell):
    def __init__(self, held):
        super().__init__()
        self.held = held

    def construct(self, x):
        return x * 2.0, self.held


def alive() -> int:
    return sum(issubclass(type(value), Tensor) for value in gc.get_objects())


def loss(x, held, recompute):
    block = Block(held)
    y, _ = ms.recompute(block, x, use_reentrant=True) if recompute else block(x)
    return ops.sum(y * held)


def left(recompute):
    """How many tensors are left after four steps."""
    gc.collect()
    gc.disable()
    before = alive()
    for _ in range(4):
        ms.grad(loss, grad_position=(0, 1))(ops.ones(4), ops.ones(4), recompute)[0].asnumpy()
    after = alive()
    gc.enable()
    return after - before


ms.set_context(mode=ms.PYNATIVE_MODE)
left(recompute=True)  # the first step fills caches
assert left(recompute=False) == 0
assert left(recompute=True) >= 4
