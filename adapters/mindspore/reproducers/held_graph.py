"""With `use_reentrant=True`, backward frees the graph of a tensor that the cell holds."""

import mindspore as ms
from mindspore import Parameter, nn, ops


class Product(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(ops.ones(4), name="w")

    def construct(self, x):
        return x * self.held * self.w


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Product()


def forward(x):
    block.held = ops.sin(x * block.w)
    return ms.recompute(block, x, use_reentrant=True) + block.held


try:
    ms.grad(forward, 0, weights=[block.w])(ops.ones(4))
except RuntimeError as error:
    assert "backward the graph twice" in str(error)
else:
    raise AssertionError("no error was raised")


first = Product()
first.held, first.w = ops.ones(4), block.w
first.recompute(use_reentrant=True)


def second(x):
    block.held = first(x)
    return ms.recompute(block, x, use_reentrant=True) + block.held


def gradient(x):
    return ops.sum(ms.grad(second, 0, weights=[block.w])(x)[0])


try:
    ms.grad(gradient, 0, weights=[block.w])(ops.ones(4))
except IndexError as error:
    assert "list index out of range" in str(error)
else:
    raise AssertionError("no error was raised")
