"""With use_reentrant=True a region's backward runs once: the second order fails."""

import mindspore as ms
from mindspore import nn, ops

REASON = "The region's arguments are taken off a list when its backward runs"


class Block(nn.Cell):
    def construct(self, x):
        return ops.sin(ops.exp(x))


def differs(changed: bool) -> bool:
    """Whether the gradient of the gradient fails; with the change, it is of the first order."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block = Block()

    def forward(x):
        a = ms.recompute(block, x, use_reentrant=True)
        return a * a

    gradient = ms.grad(forward)
    try:
        (gradient if changed else ms.grad(gradient))(ops.ones(4)).asnumpy()
    except IndexError as error:
        return "list index out of range" in str(error)
    return False
