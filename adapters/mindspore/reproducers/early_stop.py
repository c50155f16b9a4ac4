"""With early stop, backward raises if the last operation that saves a tensor is a convolution."""

import mindspore as ms
from mindspore import nn, ops


class Convolution(nn.Cell):
    def construct(self, x):
        return ops.conv2d(x, ops.ones((2, 2, 3, 3)), pad_mode="same")


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Convolution()


def forward(x):
    return ms.recompute(block, x, use_reentrant=False, early_stop=True)


try:
    ms.grad(forward)(ops.ones((2, 2, 4, 4))).asnumpy()
except RuntimeError as error:
    assert "input_args_info_stack_ is empty" in str(error)
else:
    raise AssertionError("no error is raised")
