"""In PyNative mode, training a recomputed cell with a dropout updates parameters with other masks."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(np.ones(64), ms.float32), name="w")
        self.drawn = []

    def construct(self, x):
        mask = ops.dropout(ops.ones(64), 0.5)
        self.drawn.append(mask.asnumpy())
        return x * self.w * mask


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Block()
optimizer = nn.SGD(block.trainable_params(), learning_rate=0.5)
step = ms.grad(
    lambda x: ms.recompute(block, x, use_reentrant=True).sum(), None, optimizer.parameters
)
gradients = step(ops.ones(64))
optimizer(gradients)
assert not np.allclose(block.w.asnumpy(), 1 - 0.5 * block.drawn[0], atol=1e-06)
