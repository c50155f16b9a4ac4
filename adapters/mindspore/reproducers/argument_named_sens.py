"""With `use_reentrant=True`, backward misses an argument that is passed by the name `sens`."""

import mindspore as ms
from mindspore import nn, ops


class Product(nn.Cell):
    def construct(self, x, sens):
        return ops.sin(x) * sens


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Product()


def forward(x, y):
    return ms.recompute(block, x, sens=y, use_reentrant=True)


try:
    ms.grad(forward, (0, 1))(ops.ones(4), ops.ones(4))[0].asnumpy()
except TypeError as error:
    assert "missing 1 required positional argument: 'sens'" in str(error)
else:
    raise AssertionError("no error is raised")
