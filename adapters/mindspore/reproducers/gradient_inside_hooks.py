"""In PyNative mode with `use_reentrant=False`, a recomputed cell cannot compute a gradient itself."""

import mindspore as ms
from mindspore import nn, ops


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


ms.set_context(mode=ms.PYNATIVE_MODE)
assert raises(taken, False, "input_args_info")
