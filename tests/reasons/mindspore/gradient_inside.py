"""A recomputed cell cannot take a gradient itself, in PyNative mode with use_reentrant=True."""

import mindspore as ms
from mindspore import nn, ops

REASON = "With use_reentrant=True forward runs in a context without gradients"
REENTRANT = True
MESSAGE = "In no_grad context"


class Block(nn.Cell):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def construct(self, x):
        return ops.sin(self.slope(ops.exp(x)))


def raises(slope, reentrant, message):
    """Whether a recomputed block with this slope raises this error."""
    block = Block(slope)

    def loss(x):
        return ms.recompute(block, x, use_reentrant=reentrant).sum()

    try:
        ms.value_and_grad(loss)(ms.Tensor([1.0, 2.0]))
    except RuntimeError as error:
        return message in str(error)
    return False


def taken(x):
    """The slope as a gradient that is taken on the spot."""
    return ms.grad(lambda x: ops.sin(x).sum())(x)


def differs(changed: bool) -> bool:
    """Whether forward raises an error; with the change, the slope is written out."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    return raises(ops.cos if changed else taken, REENTRANT, MESSAGE)
