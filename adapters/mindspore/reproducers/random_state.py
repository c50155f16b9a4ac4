"""A recomputed dropout draws another mask, so the gradient does not match the output."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Dropout(nn.Cell):
    def construct(self, x):
        return x * ops.dropout(ops.ones(64), 0.5)


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Dropout()


def forward(x, reentrant):
    return ms.recompute(block, x, use_reentrant=reentrant)


for reentrant in (True, False):
    y, backward = ms.vjp(lambda x, reentrant=reentrant: forward(x, reentrant), ops.ones(64))
    assert not np.array_equal(y.asnumpy(), backward(ops.ones(64))[0].asnumpy())
