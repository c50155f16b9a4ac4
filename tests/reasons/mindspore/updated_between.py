"""The rerun reads a parameter as it is after an update between forward and backward."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, nn, ops

REASON = "The rerun reads the parameters as they are after the update"


class Product(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(ops.ones(4))

    def construct(self, x):
        return ops.sin(x * self.w)


def differs(changed: bool) -> bool:
    """Whether the gradient is not cos(1); with the change, the update comes after backward."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block = Product()
    _, backward = ms.vjp(lambda x: ms.recompute(block, x, use_reentrant=True), ops.ones(4))
    if not changed:
        block.w.set_data(ops.ones(4) * 2)
    return not np.allclose(backward(ops.ones(4))[0].asnumpy(), np.cos(1))
