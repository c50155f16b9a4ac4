"""The rerun of a dropout in PyNative mode draws other numbers than the forward."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

REASON = "recompute saves and restores the state of the default generator"


class Dropout(nn.Cell):
    def __init__(self, default):
        super().__init__()
        self.default = default
        self.drawn = []

    def construct(self, x):
        if self.default:  # what the default generator would draw from
            self.drawn.append(ms.get_rng_state().asnumpy())
            ms.manual_seed(2)
        else:
            self.drawn.append(ops.dropout(ops.ones(64), 0.5).asnumpy())
        return ops.sin(x)


def differs(changed: bool) -> bool:
    """Whether forward and rerun draw differently; with the change, they take the generator's state."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block = Dropout(changed)
    ms.grad(lambda x: ms.recompute(block, x, use_reentrant=True))(ops.ones(4)).asnumpy()
    first, second = block.drawn
    return not np.array_equal(first, second)
