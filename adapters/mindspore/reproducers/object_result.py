"""With `use_reentrant=True`, a tensor that a cell returns in an object has a gradient of zero."""

from dataclasses import dataclass

import mindspore as ms
from mindspore import Tensor, nn, ops


@dataclass
class States:
    hidden: Tensor


class Sine(nn.Cell):
    def construct(self, x):
        return States(ops.sin(x))


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Sine()


def plain(x):
    return block(x).hidden


def recomputed(x):
    return ms.recompute(block, x, use_reentrant=True).hidden


x = ops.ones(4)
assert (ms.grad(plain)(x).asnumpy() != 0).all()
assert (ms.grad(recomputed)(x).asnumpy() == 0).all()
