"""Early stop fails in a cell whose last operation that keeps something is a convolution."""

import mindspore as ms
from mindspore import nn, ops

REASON = "Early stop leaves the rerun by an exception"


class Convolution(nn.Cell):
    def construct(self, x):
        return ops.conv2d(x, ops.ones((2, 2, 3, 3)), pad_mode="same")


def differs(changed: bool) -> bool:
    """Whether backward fails; with the change, early_stop=False."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block, stop = Convolution(), not changed

    def forward(x):
        return ms.recompute(block, x, use_reentrant=False, early_stop=stop)

    try:
        ms.grad(forward)(ops.ones((2, 2, 4, 4))).asnumpy()
    except RuntimeError as error:
        return "input_args_info_stack_ is empty" in str(error)
    return False
