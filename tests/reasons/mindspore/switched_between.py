"""A rerun reads a switch as it is when backward runs."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

REASON = "The rerun calls the function anew, and what the function reads from outside"


class Switched(nn.Cell):
    def __init__(self):
        super().__init__()
        self.on = False

    def construct(self, x):
        return ops.exp(-x if self.on else x)


def differs(changed: bool) -> bool:
    """Whether the gradient of an exponential is another; with the change, the switch stays off."""
    ms.set_context(mode=ms.PYNATIVE_MODE)

    def is_wrong(use_reentrant):
        block = Switched()
        y, backward = ms.vjp(
            lambda x: ms.recompute(block, x, use_reentrant=use_reentrant), ops.ones(4)
        )
        block.on = not changed
        return not np.allclose(backward(ops.ones(4))[0].asnumpy(), y.asnumpy())

    return is_wrong(True) and is_wrong(False)
