"""The rerun reads a Python switch as it is during backward, so the gradient is wrong."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Switched(nn.Cell):
    def __init__(self):
        super().__init__()
        self.on = False

    def construct(self, x):
        return ops.exp(-x if self.on else x)


ms.set_context(mode=ms.PYNATIVE_MODE)


def is_wrong(use_reentrant):
    block = Switched()
    y, backward = ms.vjp(lambda x: ms.recompute(block, x, use_reentrant=use_reentrant), ops.ones(4))
    block.on = True
    return not np.allclose(backward(ops.ones(4))[0].asnumpy(), y.asnumpy())


assert is_wrong(True)
assert is_wrong(False)
