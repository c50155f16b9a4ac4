"""The recomputation reads the current values of arguments and parameters."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, nn, ops


class Product(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(ops.ones(4))

    def construct(self, x):
        return ops.sin(x * self.w)


ms.set_context(mode=ms.PYNATIVE_MODE)


def argument_changed(x):
    h = x * x
    y = ms.recompute(Product(), h, use_reentrant=False)
    h.copy_(h + 1)
    return y


assert not np.allclose(ms.grad(argument_changed)(ops.ones(4)).asnumpy(), 2 * np.cos(1))

for reentrant in (True, False):
    block = Product()
    _, backward = ms.vjp(
        lambda x, block=block, reentrant=reentrant: ms.recompute(block, x, use_reentrant=reentrant),
        ops.ones(4),
    )
    block.w.set_data(ops.ones(4) * 2)
    assert not np.allclose(backward(ops.ones(4))[0].asnumpy(), np.cos(1))
