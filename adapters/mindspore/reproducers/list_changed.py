"""The rerun sees the item that the forward run appended to a list argument."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class Counted(nn.Cell):
    def construct(self, x, seen):
        seen.append(1)
        return ops.exp(x * float(len(seen)))


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Counted()
y, backward = ms.vjp(lambda x: ms.recompute(block, x, [], use_reentrant=False), ops.ones(4))
assert not np.allclose(backward(ops.ones(4))[0].asnumpy(), y.asnumpy())
