"""A cell that computes something else in its rerun gives another gradient, without an error."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

REASON = "Nothing compares what the rerun computes with what the forward computed"


class Scaled(nn.Cell):
    def __init__(self, steady):
        super().__init__()
        self.steady, self.calls = steady, 0

    def construct(self, x):
        self.calls += 1
        return ops.sin(x * (1 if self.steady else self.calls))


def differs(changed: bool) -> bool:
    """Whether the gradient is not cos(1); with the change, both runs compute the same."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block = Scaled(changed)
    gradient = ms.grad(lambda x: ms.recompute(block, x, use_reentrant=True))(ops.ones(4))
    return not np.allclose(gradient.asnumpy(), np.cos(1))
