"""With `use_reentrant=True`, a dict of two tensors as an argument makes backward raise."""

import mindspore as ms
from mindspore import nn, ops


class Product(nn.Cell):
    def construct(self, given):
        return ops.sin(given["x"]) * given["y"]


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Product()


def forward(x, y):
    return ms.recompute(block, {"x": x, "y": y}, use_reentrant=True)


try:
    ms.grad(forward, (0, 1))(ops.ones(4), ops.ones(4))[0].asnumpy()
except RuntimeError as error:
    assert "gradient size should larger than next edges size" in str(error)
else:
    raise AssertionError("no error is raised")
