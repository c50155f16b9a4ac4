"""A region leaves more if a mapped function takes its result, and no gradient reaches either."""

import gc

import mindspore as ms
from mindspore import Tensor, nn, ops


class Sine(nn.Cell):
    def construct(self, x):
        return ops.sin(x)


def recomputed(x):
    return ms.recompute(Sine(), x, use_reentrant=True)


def left(first, second):
    """How many tensors each step leaves."""

    def loss(x):
        ms.vmap(second)(first(x))
        return ops.sum(x)

    numbers = []
    gc.collect()
    gc.disable()
    for _ in range(4):
        ms.grad(loss)(ops.ones((2, 3))).asnumpy()
        numbers.append(sum(issubclass(type(value), Tensor) for value in gc.get_objects()))
    gc.enable()
    return (numbers[-1] - numbers[0]) // 3


ms.set_context(mode=ms.PYNATIVE_MODE)
plain = left(Sine(), Sine())
assert left(Sine(), recomputed) == plain
assert left(recomputed, Sine()) > plain
