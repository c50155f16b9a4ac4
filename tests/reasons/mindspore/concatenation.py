"""In graph mode ops.cat in a recomputed cell runs once only where its axis is given by name."""

from mindspore import nn, ops

from tests.reasons.mindspore import Recomputed, run_again

REASON = "ops.cat with its axis by name"


class ByName(nn.Cell):
    def construct(self, x):
        j = ops.cat((x, x), axis=1)
        return ops.tanh(j * j)


class ByPosition(nn.Cell):
    def construct(self, x):
        j = ops.cat((x, x), 1)
        return ops.tanh(j * j)


def differs(changed: bool) -> bool:
    """Whether the tensors are joined once only; with the change, the axis is given by position."""
    block = ByPosition() if changed else ByName()
    return "Concat" not in run_again(Recomputed(block), ops.ones((2, 4)))
