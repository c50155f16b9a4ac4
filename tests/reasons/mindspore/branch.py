"""In graph mode nothing of a recomputed cell runs again where it has a conditional on a tensor."""

from mindspore import nn, ops

from tests.reasons.mindspore import Recomputed, run_again

REASON = "A region with a conditional on a tensor is not recomputed"


class Branching(nn.Cell):
    def construct(self, x):
        h = x * x
        if h.sum() > 0:
            h = ops.sin(h)
        return ops.exp(h)


class Straight(nn.Cell):
    def construct(self, x):
        h = x * x
        s = ops.sin(h)
        return ops.exp(s)


def differs(changed: bool) -> bool:
    """Whether nothing runs again; with the change, the branch that is taken stands alone."""
    return not run_again(Recomputed(Straight() if changed else Branching()), ops.ones((2, 4)))
