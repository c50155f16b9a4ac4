"""Recompute takes a gradient of dropout of a tensor without axes, which nothing reads, and raises."""

import mindspore as ms
from mindspore import nn, ops


class Block(nn.Cell):
    def construct(self, x, scale):
        return ops.sin(x), ops.dropout(scale, p=0.5)


ms.set_context(mode=ms.PYNATIVE_MODE)
x, scale = ops.ones(4), ms.Tensor(3.0)


def gradient(block):
    return ms.grad(lambda x: block(x, scale)[0].sum())(x).asnumpy()


gradient(Block())
block = Block()
block.recompute()
try:
    gradient(block)
except RuntimeError as error:
    assert "The pointer[shape_vector] is null" in str(error)
else:
    raise AssertionError("no error is raised")
