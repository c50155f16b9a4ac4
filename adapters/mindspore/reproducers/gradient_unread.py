"""`recompute` computes a gradient of zeros that nothing reads, and that has no working kernel."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


class Block(nn.Cell):
    def construct(self, x):
        return ops.ones(4)


ms.set_context(mode=ms.PYNATIVE_MODE)
block, w = Block(), Parameter(Tensor(np.ones((2, 3, 4), np.float32)), name="w")


def gradient(recompute):
    def forward():
        x = w[:, :3:2]
        y = ms.recompute(block, x, use_reentrant=True) if recompute else block(x)
        return ops.sum(y)

    (of_w,) = ms.value_and_grad(forward, None, weights=[w])()[1]
    return of_w.asnumpy()


assert not gradient(recompute=False).any()
try:
    gradient(recompute=True)
except RuntimeError as error:
    assert "For 'StridedSliceGrad" in str(error)
else:
    raise AssertionError("no error was raised")
