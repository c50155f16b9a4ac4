"""With `use_reentrant=True`, a gradient of a gradient raises."""

import mindspore as ms
from mindspore import nn, ops


class Block(nn.Cell):
    def construct(self, x):
        return ops.sin(ops.exp(x))


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Block()


def forward(x):
    a = ms.recompute(block, x, use_reentrant=True)
    return a * a


gradient = ms.grad(forward)
try:
    ms.grad(gradient)(ops.ones(4)).asnumpy()
except IndexError as error:
    assert "list index out of range" in str(error)
else:
    raise AssertionError("no error is raised")
