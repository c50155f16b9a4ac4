"""With `use_reentrant=True`, an argument after an empty dict gets the gradient of the one before it."""

import mindspore as ms
from mindspore import nn, ops


class Product(nn.Cell):
    def construct(self, x, options, y):
        return ops.sin(x) * ops.exp(y)


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Product()


def forward(x, y):
    return ms.recompute(block, x, {}, y, use_reentrant=True)


def plain(x, y):
    return block(x, {}, y)


x, y = ops.ones(4), ops.ones(4)
of_x, of_y = ms.grad(plain, (0, 1))(x, y)
again_x, again_y = ms.grad(forward, (0, 1))(x, y)
assert (again_x.asnumpy() == of_x.asnumpy()).all()
assert (of_y.asnumpy() != 0).all()
assert (again_y.asnumpy() == 0).all()
