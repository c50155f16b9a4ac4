"""A function that reads its saved tensors twice raises an error in a recomputed cell."""

import mindspore as ms
from mindspore import nn, ops

REASON = "What the rerun has made is forgotten as soon as it is read"


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


def differs(changed: bool) -> bool:
    """Whether backward fails; with the change, the saved tensors are read once."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block, times = Block(), 1 if changed else 2
    try:
        ms.grad(lambda x: ms.recompute(block, x, times, use_reentrant=False))(ops.ones(4)).asnumpy()
    except RuntimeError as error:
        return "make sure to do this only once" in str(error)
    return False
