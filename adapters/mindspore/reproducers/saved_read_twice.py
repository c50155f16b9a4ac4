"""In a recomputed cell, a custom backward that reads its saved tensors twice raises."""

import mindspore as ms
from mindspore import nn, ops


class Sine(ms._Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return ops.sin(x)

    @staticmethod
    def backward(ctx, dout):
        for _ in range(2):
            (x,) = ctx.saved_tensors
        return ops.cos(x) * dout


class Block(nn.Cell):
    def construct(self, x):
        return Sine.apply(ops.exp(x))


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Block()
try:
    ms.grad(lambda x: ms.recompute(block, x, use_reentrant=False))(ops.ones(4)).asnumpy()
except RuntimeError as error:
    assert "make sure to do this only once" in str(error)
else:
    raise AssertionError("no error is raised")
