"""Compiling the gradient of a recomputed cell that loops on a tensor's value ends the process."""

import sys

import mindspore as ms
from mindspore import nn, ops

REASON = "The process ends when the gradient of a recomputed cell"


class Doubled(nn.Cell):
    def construct(self, x):
        while x.sum() < 20:
            x = x * 2
        return ops.exp(x)


class Net(nn.Cell):
    def __init__(self, changed):
        super().__init__()
        self.block = Doubled()
        self.changed = changed

    def construct(self, x):
        return self.block(x) if self.changed else ms.recompute(self.block, x)


def differs(changed: bool) -> bool:
    """Whether the process ends; with the change, the cell is called without recompute."""
    from tests.reasons.ending import died

    return died(__file__, changed=changed)


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.grad(Net(len(sys.argv) > 1))(ops.ones((2, 4)))
