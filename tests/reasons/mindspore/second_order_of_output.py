"""With use_reentrant=True the gradient of a gradient is zero where the region's output is summed."""

import mindspore as ms
from mindspore import nn, ops

REASON = "The region's gradient is computed anew outside of what is differentiated again"


class Block(nn.Cell):
    def construct(self, x):
        return ops.exp(x)


def differs(changed: bool) -> bool:
    """Whether the second gradient of exp is zero; with the change, the region is not reentrant."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block, options = Block(), {"use_reentrant": True}
    if changed:
        options = {"use_reentrant": False, "early_stop": False}
    gradient = ms.grad(lambda x: ms.recompute(block, x, **options).sum())
    return not ms.grad(lambda x: gradient(x).sum())(ops.ones(4)).asnumpy().any()
