"""The gradient of a recomputed dropout is that of another mask, without an error."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

REASON = "Wrong without a word, because the rerun drew other random numbers"


class Dropout(nn.Cell):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def construct(self, x):
        return x * (ops.dropout(ops.ones(64), 0.5) if self.mask is None else self.mask)


def differs(changed: bool) -> bool:
    """Whether the gradient is not the mask; with the change, the mask is drawn before the region."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block = Dropout(ops.dropout(ops.ones(64), 0.5) if changed else None)
    y, backward = ms.vjp(lambda x: ms.recompute(block, x, use_reentrant=True), ops.ones(64))
    return not np.array_equal(y.asnumpy(), backward(ops.ones(64))[0].asnumpy())
