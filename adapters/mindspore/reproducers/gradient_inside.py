"""In PyNative mode with `use_reentrant=True`, a recomputed cell cannot compute a gradient itself."""

import mindspore as ms
from mindspore import nn, ops


class Block(nn.Cell):
    def construct(self, x):
        slope = ms.grad(lambda x: ops.sin(x).sum())(ops.exp(x))
        return ops.sin(slope)


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Block()
try:
    ms.grad(lambda x: ms.recompute(block, x, use_reentrant=True).sum())(ms.Tensor([1.0, 2.0]))
except RuntimeError as error:
    assert "In no_grad context" in str(error)
else:
    raise AssertionError("no error is raised")
