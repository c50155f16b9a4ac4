"""With `use_reentrant=True`, a second-order gradient raises or is zero."""

import mindspore as ms
from mindspore import nn, ops


class Block(nn.Cell):
    def construct(self, x):
        return ops.sin(ops.exp(x))


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Block()


def linear(x):
    return ms.recompute(block, x, use_reentrant=True).sum()


def nonlinear(x):
    a = ms.recompute(block, x, use_reentrant=True)
    return (a * a).sum()


def second_order(function):
    gradient = ms.grad(function)
    return ms.grad(lambda x: gradient(x).sum())(ops.ones(4)).asnumpy()


assert not second_order(linear).any()
try:
    second_order(nonlinear)
except IndexError as error:
    assert "list index out of range" in str(error)
else:
    raise AssertionError("no error is raised")
