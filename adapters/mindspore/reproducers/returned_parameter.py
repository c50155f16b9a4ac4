"""With `use_reentrant=True`, a cell that returns its parameter makes backward raise."""

import mindspore as ms
from mindspore import Parameter, nn, ops


class Weighted(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(ops.ones(4))

    def construct(self, x):
        return x * self.w, self.w


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Weighted()


def forward(x):
    y, w = ms.recompute(block, x, use_reentrant=True)
    return y * w


try:
    ms.grad(forward, 0, block.trainable_params())(ops.ones(4))[0].asnumpy()
except RuntimeError as error:
    assert "is null" in str(error)
else:
    raise AssertionError("no error is raised")
