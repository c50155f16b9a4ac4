"""Each recomputation that stops early leaves a `Tensor` object alive."""

import gc

import mindspore as ms
from mindspore import Tensor, nn, ops


class Block(nn.Cell):
    def construct(self, x):
        return ops.exp(ops.sin(x))


def alive() -> int:
    gc.collect()
    return sum(issubclass(type(value), Tensor) for value in gc.get_objects())


ms.set_context(mode=ms.PYNATIVE_MODE)
block, x = Block(), ops.ones(4)


def forward(x):
    return ms.recompute(block, x, use_reentrant=False, early_stop=True)


def step():
    ms.grad(forward)(x).asnumpy()


step()
before = alive()
for _ in range(4):
    step()
assert alive() - before >= 4
