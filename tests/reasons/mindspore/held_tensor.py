"""With use_reentrant=True the gradient of a tensor that the recomputed cell holds is zero."""

import mindspore as ms
from mindspore import nn, ops

REASON = "The custom bprop of the region gives gradients of its arguments and parameters alone"


class Product(nn.Cell):
    def construct(self, x, y=None):
        return x * (self.held if y is None else y)


def differs(changed: bool) -> bool:
    """Whether the gradient of y is zero; with the change, y is an argument."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block = Product()

    def forward(x, y):
        block.held = y * 2
        more = (block.held,) if changed else ()
        return ms.recompute(block, x, *more, use_reentrant=True)

    of_y = ms.grad(forward, 1)(ops.ones(4), ops.ones(4))
    return not of_y.asnumpy().any()
