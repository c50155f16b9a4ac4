"""In a recomputed cell, a custom backward that reads its saved tensors twice raises."""

import mindspore as ms
from mindspore import nn, ops


class Sine(ms._Function):
    @staticmethod
    def forward(ctx, x, times):
        ctx.save_for_backward(x)
        ctx.times = times
        return ops.sin(x)

    @staticmethod
    def backward(ctx, dout):
        for _ in range(ctx.times):
            (x,) = ctx.saved_tensors
        return ops.cos(x) * dout, None


class Block(nn.Cell):
    def construct(self, x, times):
        return Sine.apply(ops.exp(x), times)


ms.set_context(mode=ms.PYNATIVE_MODE)
block, times = Block(), 2
try:
    ms.grad(lambda x: ms.recompute(block, x, times, use_reentrant=False))(ops.ones(4)).asnumpy()
except RuntimeError as error:
    assert "make sure to do this only once" in str(error)
else:
    raise AssertionError("no error is raised")
