"""In graph mode the body of a loop in a recomputed cell does not run again, only what leads to it."""

from mindspore import nn, ops

from tests.reasons.mindspore import Recomputed, run_again

REASON = "The body of a loop is a graph of its own"


def step(_, x):
    return ops.sin(x)


class Loop(nn.Cell):
    def construct(self, x):
        s = ops.ForiLoop()(0, 3, step, ops.exp(x), False)
        return ops.exp(s)


class Unrolled(nn.Cell):
    def construct(self, x):
        s = ops.sin(ops.sin(ops.sin(ops.exp(x))))
        return ops.exp(s)


def differs(changed: bool) -> bool:
    """Whether no step runs again; with the change, the steps are written out."""
    return not run_again(Recomputed(Unrolled() if changed else Loop()), ops.ones((2, 4)))["Sin"]
