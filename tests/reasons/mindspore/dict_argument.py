"""With use_reentrant=True a dict of two tensors as an argument fails in backward."""

import mindspore as ms
from mindspore import nn, ops

REASON = "The documentation rules out tensors in lists and tuples only"


class Product(nn.Cell):
    def construct(self, given):
        return ops.sin(given["x"]) * given["y"]


def differs(changed: bool) -> bool:
    """Whether backward wants more gradients than it gets; with the change, use_reentrant=False."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block = Product()

    def forward(x, y):
        return ms.recompute(block, {"x": x, "y": y}, use_reentrant=not changed)

    try:
        ms.grad(forward, (0, 1))(ops.ones(4), ops.ones(4))[0].asnumpy()
    except RuntimeError as error:
        return "gradient size should larger than next edges size" in str(error)
    return False
