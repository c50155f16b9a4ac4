"""In graph mode nothing runs again of a recomputed cell that vmap maps."""

import mindspore as ms
from mindspore import nn, ops

from tests.reasons.mindspore import Recomputed, run_again

REASON = "vmap makes new operations of those in the region"


class Block(nn.Cell):
    def construct(self, x):
        return ops.exp(ops.sin(ops.exp(x)))


class Mapped(nn.Cell):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def construct(self, x):
        return ms.vmap(self.cell)(x)


def differs(changed: bool) -> bool:
    """Whether nothing runs again; with the change, the cell is called without vmap."""
    cell = Recomputed(Block())
    return not run_again(cell if changed else Mapped(cell), ops.ones((2, 4)))
