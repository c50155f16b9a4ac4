"""A cell that computes something else the second time has a wrong gradient, without an error."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Scaled(nn.Cell):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def construct(self, x):
        self.calls += 1
        return ops.sin(x * self.calls)


ms.set_context(mode=ms.PYNATIVE_MODE)


def gradient(reentrant):
    block = Scaled()
    return ms.grad(lambda x: ms.recompute(block, x, use_reentrant=reentrant))(ops.ones(4)).asnumpy()


assert not np.allclose(gradient(True), np.cos(1))
assert not np.allclose(gradient(False), np.cos(1))
